import { Log } from "../parts/log.tsx";
import { navigate, place } from "../route.ts";

/** The log of an instance: the current run or the previous one. */
export function Logs({ name }: { name: string }) {
  const isPrevious = place.value.searchParams.get("previous") === "1";
  const path = `/instances/${encodeURIComponent(name)}/logs${isPrevious ? "?previous=true" : ""}`;
  return (
    <section aria-labelledby="log">
      <h2 id="log">Log</h2>
      <label>
        <input type="checkbox" checked={isPrevious} onChange={(event) => setPrevious(event.currentTarget.checked)} />{" "}
        before the last restart
      </label>
      <Log path={path} label={`Log of ${name}`} />
    </section>
  );
}

function setPrevious(isPrevious: boolean): void {
  const next = new URL(place.value);
  if (isPrevious) next.searchParams.set("previous", "1");
  else next.searchParams.delete("previous");
  navigate(next.href, { replace: true });
}
