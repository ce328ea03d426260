import { effect, signal } from "@preact/signals";
import { isLoginAsked } from "../api/call.ts";
import { clockAheadMs, connection, isEdgeFresh, lastHeardAt, listProblem, retryFeed } from "../api/kinds.ts";
import { When } from "../parts/when.tsx";

/** Whether the edge serves another version of the page by now. */
const isUpdated = signal(false);
let wasLost = false;

// A page stays open for days; a new edge shows as a connection that comes back.
effect(() => {
  if (connection.value === "stale") wasLost = true;
  else if (connection.value === "live" && wasLost) {
    wasLost = false;
    void lookForUpdate();
  }
});

async function lookForUpdate(): Promise<void> {
  try {
    const html = await (await fetch("/", { cache: "no-cache" })).text();
    const own = document.querySelectorAll<HTMLScriptElement | HTMLLinkElement>("script[src], link[rel=stylesheet]");
    if ([...own].every((one) => html.includes(new URL("src" in one ? one.src : one.href).pathname))) return;
  } catch (error) {
    console.debug("asked again at the next reconnect", error);
    return;
  }
  // While somebody works on the page, unless he is in the middle of something there.
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  if (isLocal && document.querySelector("dialog[open], form:focus-within") === null) location.reload();
  else isUpdated.value = true;
}

/** Says how old the view is where it does not follow what happens. */
export function Banner() {
  const isStale = connection.value === "stale";
  const problem = listProblem.value;
  const heardAt = new Date(lastHeardAt.value + clockAheadMs.value).toISOString();
  return (
    <div class="banner" role="status">
      {isStale && (
        <p>
          The connection to the edge is lost. What is shown was so <When at={heardAt} />; it is tried again.{" "}
          <button type="button" onClick={retryFeed}>
            Try now
          </button>
        </p>
      )}
      {!isStale && !isEdgeFresh.value && (
        <p>The edge cannot see the cluster at the moment. What is shown may be old.</p>
      )}
      {!isStale && problem !== undefined && !isLoginAsked.value && <p>{problem.message}</p>}
      {isUpdated.value && (
        <p class="plain">
          tenancy was updated.{" "}
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
    </div>
  );
}
