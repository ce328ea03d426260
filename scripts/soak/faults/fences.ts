import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import type { Checker } from "../checker.ts";
import type { Decisions } from "../decisions.ts";
import { expect } from "../history.ts";
import { APP_IMAGE, WORKLOADS_PATH } from "../objects.ts";

export const GUARDED = "guarded";

/** What each instance may use: many share one machine. */
export const SMALL = { vcpus: 1, memoryMb: 64, diskGb: 1 };

/** The workload whose fence goes up and down; it begins without one. */
export function guardedSpec(isFenced: boolean): object {
  const network = isFenced ? { access: "restricted", allowlist: ["example.com"] } : { access: "restricted" };
  return { image: { ref: APP_IMAGE }, resources: SMALL, network };
}

/** After a PUT whose end is not known it may still come: longer than any call of the edge's is under way. */
const UNKNOWN_MS = 60_000;

/** Puts an allowlist on a workload and takes it away again, and tells the checker from when on it must hold. */
export async function moveFences(options: {
  edgeUrl: string;
  api: ApiClient;
  checker: Checker;
  decisions: Decisions;
  signal: AbortSignal;
}): Promise<void> {
  const { edgeUrl, api, checker, decisions, signal } = options;
  let isFenced = false;
  let unknownUntil = 0;
  while (!signal.aborted) {
    await pause(decisions.between(1000, isFenced ? 6000 : 9000), signal);
    if (signal.aborted || Date.now() < unknownUntil) continue;
    isFenced = !isFenced;
    if (!isFenced) checker.fence(GUARDED, undefined);
    const isPut = await put(isFenced);
    if (!isPut && !isFenced) unknownUntil = Date.now() + UNKNOWN_MS;
    if (!isPut || !isFenced) continue;
    const { metadata } = JSON.parse(await expect(api, "GET", `${WORKLOADS_PATH}/${GUARDED}`)) as {
      metadata: { resourceVersion: string };
    };
    checker.fence(GUARDED, Number(metadata.resourceVersion));
  }

  async function put(fenced: boolean): Promise<boolean> {
    try {
      const response = await fetch(`${edgeUrl}/api/v1/workloads/${GUARDED}`, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ name: GUARDED, spec: guardedSpec(fenced) }),
        signal: AbortSignal.timeout(30_000),
      });
      await response.arrayBuffer();
      return response.status === 200;
    } catch (error) {
      // What became of it is not known.
      if (error instanceof Error) return false;
      throw error;
    }
  }
}
