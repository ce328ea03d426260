/** The milliseconds that a `retry-after` header asks to wait, given as seconds or as a date; undefined when it asks for nothing. */
export function retryAfter(header: string | undefined, options: { now: number }): number | undefined {
  if (header === undefined || header === "") return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - options.now);
}
