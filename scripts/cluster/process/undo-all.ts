/**
 * Undoes all steps, the last first. Continues if a step fails. The list is empty afterwards.
 *
 * @throws AggregateError of the failed steps
 */
export async function undoAll(undo: (() => unknown)[]): Promise<void> {
  const problems: unknown[] = [];
  for (const step of undo.splice(0).reverse()) {
    try {
      await step();
    } catch (error) {
      problems.push(error);
    }
  }
  if (problems.length > 0) throw new AggregateError(problems, `Cannot stop everything: ${problems.join("; ")}`);
}
