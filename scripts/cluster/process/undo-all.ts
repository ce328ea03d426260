/**
 * Undoes what was started, the last first, and goes on where a step fails. The list is empty afterwards.
 *
 * @throws AggregateError of what failed
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
