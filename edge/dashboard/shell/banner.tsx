import { effect, signal } from "@preact/signals";
import { isLoginAsked } from "../api/call.ts";
import { clockAheadMs, connection, isEdgeFresh, lastHeardAt, listProblem, retryFeed } from "../api/kinds.ts";
import { sessionProblem } from "../api/session.ts";
import { When } from "../parts/when.tsx";

/** Whether the edge now serves another version of the page. */
const isUpdated = signal(false);
let wasLost = false;

// A page stays open for days; a new edge shows as a reconnect.
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
    console.debug("Update check failed; it is repeated at the next reconnect", error);
    return;
  }
  // On a developer's machine, reload at once unless a dialog or form is in use.
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  if (isLocal && document.querySelector("dialog[open], form:focus-within") === null) location.reload();
  else isUpdated.value = true;
}

/** Shows how old the data is while the page is disconnected or the edge is behind. */
export function Banner() {
  const isStale = connection.value === "stale";
  const problem = sessionProblem.value ?? listProblem.value;
  const heardAt = new Date(lastHeardAt.value + clockAheadMs.value).toISOString();
  return (
    <div class="banner" role="status">
      {isStale && (
        <p>
          Disconnected. Data is from <When at={heardAt} />. Reconnecting…{" "}
          <button type="button" onClick={retryFeed}>
            Retry now
          </button>
        </p>
      )}
      {!isStale && !isEdgeFresh.value && <p>The edge cannot reach the cluster. Data may be old.</p>}
      {!isStale && problem !== undefined && !isLoginAsked.value && <p>{problem.message}</p>}
      {isUpdated.value && (
        <p class="plain">
          A new version of tenancy is available.{" "}
          <button type="button" onClick={() => location.reload()}>
            Reload
          </button>
        </p>
      )}
    </div>
  );
}
