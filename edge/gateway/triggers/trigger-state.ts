import { ApiError, isConflict } from "../../../crds/client/api-error.ts";
import type { Cluster, JsonOperation } from "../../../crds/client/cluster.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Trigger } from "../../../crds/trigger.ts";

/** The adapter's state in a trigger's status. */
export interface TriggerState {
  /** Reads it from the API server. @throws ApiError, NetworkError */
  read(): Promise<Record<string, unknown>>;
  /**
   * Replaces it, with the precondition that no other process has written it since it was read here.
   *
   * @throws ApiError 409 if another process has, or another trigger of that name was created; TypeError if it exceeds
   * 64 KiB
   */
  write(state: Record<string, unknown>): Promise<void>;
}

const MAX_BYTES = 64 * 1024;
/** Number of retries after changes of other fields of the object. */
const MAX_TRIES = 10;

/** Opens the state of one trigger object. */
export function createTriggerState(options: { cluster: Cluster; trigger: Trigger }): TriggerState {
  const { name, uid } = options.trigger.metadata;
  const object = options.cluster(triggers).named(name);
  let known: Trigger | undefined;

  async function get(): Promise<Trigger> {
    const found = await object.get();
    if (found.metadata.uid !== uid) throw changed();
    return found;
  }

  function changed(): ApiError {
    return new ApiError(`another process changed the state of trigger ${name}`, { status: 409, reason: "Conflict" });
  }

  return {
    async read() {
      known = await get();
      return stateOf(known);
    },
    async write(state) {
      const bytes = Buffer.byteLength(JSON.stringify(state));
      if (bytes > MAX_BYTES)
        throw new TypeError(`Cannot write the state of trigger ${name}: ${bytes} bytes of ${MAX_BYTES}`);
      let base = known ?? (await get());
      for (let tries = 1; ; tries += 1) {
        try {
          known = await object.patchJson(patchOf(base, state), { subresource: "status" });
          return;
        } catch (error) {
          if (!isStale(error) || tries === MAX_TRIES) throw error;
          const found = await get();
          if (found.metadata.resourceVersion === base.metadata.resourceVersion) throw error;
          // Only a change of the state is a conflict; other fields of the object may have changed.
          if (JSON.stringify(stateOf(found)) !== JSON.stringify(stateOf(base))) throw changed();
          base = found;
        }
      }
    },
  };
}

/** If the object no longer has that status, for example because it was created again, the patch does not apply: 422. */
function isStale(error: unknown): boolean {
  return isConflict(error) || (error instanceof ApiError && error.status === 422);
}

function stateOf({ status }: Trigger): Record<string, unknown> {
  return status?.state ?? {};
}

/** Replaces the state whole, which a merge patch could not; the resourceVersion in it is the precondition. */
function patchOf({ metadata, status }: Trigger, state: Record<string, unknown>): JsonOperation[] {
  return [
    { op: "replace", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
    status === undefined
      ? { op: "add", path: "/status", value: { state } }
      : { op: "add", path: "/status/state", value: state },
  ];
}
