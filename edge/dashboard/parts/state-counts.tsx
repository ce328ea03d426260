import { useMemo } from "preact/hooks";
import type { Live } from "../api/live-list.ts";
import { changeQuery, place } from "../route.ts";
import { type Health, healthOf, type Known } from "./health.ts";
import { healthWords, shapes } from "./state.tsx";
import { useThrottled } from "./throttled.ts";

/** Minimum time between two counts: a count reads all rows. */
const COUNT_MS = 500;

/** How many rows are of each health, once the rows are read: each a button that shows only those. */
export function StateCounts<Row>({ live, known }: { live: Live<Row>; known: (row: Row) => Known }) {
  const version = useThrottled(() => live.version.value, COUNT_MS);
  const isRead = live.state.value !== "loading";
  const counts = useMemo(() => {
    const of: Record<Health["is"], number> = { bad: 0, warn: 0, ok: 0, plain: 0 };
    for (const row of live.rows.values()) of[healthOf(known(row)).is] += 1;
    return of;
  }, [live, version, isRead]);
  const shown = place.value.searchParams.get("health");
  return (
    <ul class="counts" aria-label="Counts by health">
      {Object.entries(healthWords).map(([is, word]) => (
        <li key={is} class={`is-${is}`}>
          <button
            type="button"
            aria-pressed={shown === word}
            onClick={() => changeQuery({ health: shown === word ? "" : word })}
          >
            <span aria-hidden="true">{shapes[is as Health["is"]]}</span>{" "}
            {isRead ? counts[is as Health["is"]].toLocaleString() : "–"} {word}
          </button>
        </li>
      ))}
    </ul>
  );
}
