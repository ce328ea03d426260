/** Lets everything that is ready to run go on until the condition holds; fails after a thousand turns. */
export async function until(condition: () => boolean): Promise<void> {
  for (let turns = 0; turns < 1000; turns += 1) {
    if (condition()) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
  throw new Error("the condition never held");
}
