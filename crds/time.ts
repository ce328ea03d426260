import { pattern } from "./schema/patterns.ts";

const TIME = new RegExp(pattern.time);

/** Whether a text is a time (RFC 3339) on a day that exists: some runtimes take the 31st of June for the 1st of July. */
export function isTime(text: string): boolean {
  return TIME.test(text) && isDay(text.slice(0, 10)) && !Number.isNaN(Date.parse(text));
}

/** Whether a text such as `2026-11-29` is a day that exists. */
function isDay(text: string): boolean {
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}
