/** Waits until the condition holds; the test file's own limit ends a wait in vain. */
export async function eventually(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1));
}
