/** Works on every item, so many at once. @throws the first error, when those under way have ended */
export async function inParallel<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item, index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, async () => {
    for (let index = next++; index < items.length; index = next++) await work(items[index] as Item, index);
  });
  const ended = await Promise.allSettled(workers);
  const failed = ended.find((one) => one.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
