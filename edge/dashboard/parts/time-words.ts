const SECOND_MS = 1000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** A relative time, past or future; in seconds below one minute. */
export function timeWords(time: number, now: number): string {
  const ms = now - time;
  const size = Math.abs(ms);
  const words =
    size < MINUTE_MS
      ? `${Math.floor(size / SECOND_MS)} s`
      : size < 60 * MINUTE_MS
        ? `${Math.floor(size / MINUTE_MS)} min`
        : "over 1 h";
  return ms >= 0 ? `${words} ago` : `in ${words}`;
}

/** The local time; with the date, and without seconds, unless it is today. */
export function localTime(time: number, now: number): string {
  const at = new Date(time);
  const isToday = Math.abs(now - time) < DAY_MS && at.getDate() === new Date(now).getDate();
  const minutes = { hour: "2-digit", minute: "2-digit" } as const;
  if (isToday) return at.toLocaleTimeString([], { ...minutes, second: "2-digit" });
  return `${at.toLocaleDateString()} ${at.toLocaleTimeString([], minutes)}`;
}

/** Milliseconds below 10 s, seconds above. */
export function durationWords(ms: number): string {
  const rounded = Math.round(ms);
  if (rounded < 10_000) return `${rounded} ms`;
  if (rounded < 120_000) return `${(rounded / SECOND_MS).toFixed(1)} s`;
  return `${Math.floor(rounded / MINUTE_MS)} min ${Math.round((rounded % MINUTE_MS) / SECOND_MS)} s`;
}
