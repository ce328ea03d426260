/** An hour of UTC as `2026-11-29T14`: usage records are stored by hour. Hours sort as text. */
export type UsageHour = string;

export const HOUR_MS = 3_600_000;
const HOUR = /^\d{4}-\d{2}-\d{2}T\d{2}$/;

/** @param ms milliseconds since the epoch */
export function hourAt(ms: number): UsageHour {
  return new Date(ms).toISOString().slice(0, 13);
}

/** The start of an hour, in milliseconds since the epoch. */
export function hourStart(hour: UsageHour): number {
  return Date.parse(`${hour}:00:00.000Z`);
}

export function isUsageHour(text: string): boolean {
  return HOUR.test(text) && !Number.isNaN(hourStart(text)) && hourAt(hourStart(text)) === text;
}

/** The hours from one to another, without the second. */
export function* hoursBetween(from: UsageHour, to: UsageHour): Generator<UsageHour> {
  for (let ms = hourStart(from); ms < hourStart(to); ms += HOUR_MS) yield hourAt(ms);
}
