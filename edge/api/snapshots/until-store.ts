import { askUntil } from "../../http/ask-until.ts";
import { HttpError } from "../../http/http-error.ts";
import { type SnapshotServices, storeState } from "./store.ts";

/** How long an upload waits for the volume, which the operator creates for the first workload that needs it. */
const LIMIT_MS = 30_000;

/**
 * Waits until the store can be called.
 *
 * @throws HttpError 503 if the volume does not exist after 30 s, or its helper pod is not running; 499 when the client
 * disconnects
 */
export async function untilStore(
  services: Pick<SnapshotServices, "cluster" | "namespace" | "store" | "clock"> & { clientGone: AbortSignal },
): Promise<void> {
  const { clock, clientGone } = services;
  const isGood = (problem: HttpError | undefined) => problem === undefined;
  const problem = await askUntil(() => problemOf(services), { isGood, limitMs: LIMIT_MS, clock, clientGone });
  if (problem !== undefined) throw problem;
}

async function problemOf(services: Parameters<typeof storeState>[0]): Promise<HttpError | undefined> {
  try {
    if ((await storeState(services)) === "ready") return undefined;
    return new HttpError(503, "the snapshots volume does not exist yet; try again", {
      headers: { "retry-after": "1" },
    });
  } catch (error) {
    if (error instanceof HttpError && error.status === 503) return error;
    throw error;
  }
}
