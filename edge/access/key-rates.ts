import type { Clock } from "../../crds/client/clock.ts";
import { HttpError } from "../http/http-error.ts";
import type { Actor, Caller } from "./actor.ts";

/**
 * Counts a request of an actor.
 *
 * @throws HttpError 429 with `Retry-After` if its key has used up its requests of the second on this replica
 */
export type AdmitActor = (actor: Actor) => void;

/**
 * Limits the requests of each key through this process to its `requestsPerSecond`: by a token bucket of one second. A
 * key that is changed begins with a full one.
 *
 * @param options.clock steady
 */
export function createKeyRates({ clock }: { clock: Pick<Clock, "now"> }): AdmitActor {
  /** By the signal of the key's end, which those who act for the key share with it. */
  const buckets = new WeakMap<AbortSignal, { left: number; at: number }>();
  return (actor) => {
    const { id, ended, requestsPerSecond: limit } = actor;
    if (limit === undefined) return;
    const now = clock.now();
    const known = buckets.get(ended);
    const left = known === undefined ? limit : Math.min(limit, known.left + (limit * (now - known.at)) / 1000);
    const isOver = left < 1;
    buckets.set(ended, { left: isOver ? left : left - 1, at: now });
    if (isOver)
      throw new HttpError(
        429,
        `key ${id} has used up its ${limit} requests a second (requestsPerSecond of the key) on this replica; try again in 1 s`,
        { headers: { "retry-after": "1" } },
      );
  };
}

/** Makes each call of `authenticate` count for the key, also that of a session or for a path that does not exist. */
export function countCallers<Context>(
  authenticate: (request: Request, context: Context) => Caller | Promise<Caller>,
  admit: AdmitActor,
): (request: Request, context: Context) => Caller | Promise<Caller> {
  const counted = (caller: Caller): Caller => {
    admit(caller.actor);
    return caller;
  };
  return (request, context) => {
    const found = authenticate(request, context);
    return found instanceof Promise ? found.then(counted) : counted(found);
  };
}
