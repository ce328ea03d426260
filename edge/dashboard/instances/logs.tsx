import { Log } from "../parts/log.tsx";
import { changeQuery, place } from "../route.ts";

/** The log of an instance: the current run or the previous one. */
export function Logs({ name }: { name: string }) {
  const isPrevious = place.value.searchParams.get("previous") === "1";
  const path = `/instances/${encodeURIComponent(name)}/logs${isPrevious ? "?previous=true" : ""}`;
  return (
    <section aria-labelledby="log">
      <h2 id="log">Log</h2>
      <label>
        <input
          type="checkbox"
          checked={isPrevious}
          onChange={(event) => changeQuery({ previous: event.currentTarget.checked ? "1" : "" })}
        />{" "}
        before the last restart
      </label>
      <Log path={path} label={`Log of ${name}`} />
    </section>
  );
}
