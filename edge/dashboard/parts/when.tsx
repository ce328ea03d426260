import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { clockAheadMs } from "../api/kinds.ts";
import { localTime, timeWords } from "./time-words.ts";

const HOUR_MS = 3_600_000;
/** The edge's time, so that times are right even if this machine's clock is wrong. */
const now = signal(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** A time: relative within an hour of now, otherwise local; its title is ISO 8601. */
export function When({ at }: { at: string | undefined }) {
  const time = Date.parse(at ?? "");
  const isRelative = Math.abs(now.value - time) < HOUR_MS;
  useEffect(() => (isRelative ? tick() : undefined), [isRelative]);
  if (Number.isNaN(time)) return null;
  return (
    <time dateTime={at} title={new Date(time).toISOString()}>
      {isRelative ? timeWords(time, now.value) : localTime(time, now.value)}
    </time>
  );
}

/** One timer for all times on the page, and none while the page is hidden. */
function tick(): () => void {
  readers += 1;
  if (readers === 1) run();
  return () => {
    readers -= 1;
    if (readers === 0) clearInterval(timer);
  };
}

function run(): void {
  clearInterval(timer);
  if (document.hidden || readers === 0) return;
  step();
  timer = setInterval(step, 1000);
}

function step(): void {
  now.value = Date.now() + clockAheadMs.peek();
}

document.addEventListener("visibilitychange", run);
