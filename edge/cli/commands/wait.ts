import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../../client/index.ts";
import { type Command, CommandError, type Context, UsageError } from "../command.ts";
import { secondsOf } from "../parse.ts";
import { claimKeyOf } from "../where.ts";

const LOOK_AGAIN_MS = 1000;

interface State {
  /** Undefined if there is none. */
  readonly phase: string | undefined;
  readonly message?: string | undefined;
}

export const wait: Command = {
  name: "wait",
  summary: "Wait until a claim or a workload is in a phase",
  words: "[tenant/workload]",
  most: 2,
  options: {
    workload: { kind: "value", value: "NAME", help: "wait for this workload instead of a claim" },
    for: { kind: "value", value: "PHASE", help: "such as Active (a claim's default), Ready (a workload's), or gone" },
    timeout: { kind: "value", value: "TIME", help: "how long; 5m by default" },
  },
  notes: ["The exit code is 0 in that phase, 6 when the time is up, 3 if it is gone, and 1 in the phase Error."],
  examples: ["wait alice/hello", "wait alice/hello --for gone", "wait --workload hello"],
  async run(input, context) {
    const workload = input.value("workload");
    if ((workload === undefined) === (input.words.length === 0))
      throw new UsageError("Cannot wait: name either tenant/workload or --workload");
    const key = workload === undefined ? claimKeyOf(input.words) : undefined;
    const wanted = input.value("for") ?? (key === undefined ? "Ready" : "Active");
    const what = key === undefined ? `workload ${workload}` : `${key.tenant}/${key.workload}`;
    const read = key === undefined ? () => workloadState(workload ?? "", context) : () => claimState(key, context);
    await untilIn(wanted, { what, read, limit: secondsOf(input.value("timeout") ?? "5m", "--timeout"), ...context });
    return 0;
  },
};

async function untilIn(
  wanted: string,
  { what, read, limit, signal }: { what: string; read: () => Promise<State>; limit: number; signal: AbortSignal },
): Promise<void> {
  const from = performance.now();
  const isWanted = (phase: string) => phase.toLowerCase() === wanted.toLowerCase();
  for (;;) {
    const { phase, message } = await read();
    if (isWanted(phase ?? "gone")) return;
    const why = message === undefined ? "" : `: ${message}`;
    if (phase === undefined) throw new ApiError(`${what} is gone`, { status: 404 });
    if (phase === "Error" || phase === "ReleaseFailed")
      throw new CommandError(`${what} is ${phase}${why}`, { exitCode: 1 });
    if (performance.now() - from >= limit * 1000)
      throw new CommandError(`${what} is ${phase} after ${limit} s${why}`, { exitCode: 6 });
    await sleep(LOOK_AGAIN_MS, undefined, { signal });
  }
}

async function claimState(
  { tenant: id, workload }: { tenant: string; workload: string },
  { client, signal }: Context,
): Promise<State> {
  const path = { id, workload };
  return await stateOf(async () => {
    const claim = await client.call("GET /api/v1/tenants/{id}/claims/{workload}", { path, signal });
    return { phase: claim.phase, message: claim.message ?? claim.waitsFor };
  });
}

async function workloadState(name: string, { client, signal }: Context): Promise<State> {
  return await stateOf(
    async () => (await client.call("GET /api/v1/workloads/{name}", { path: { name }, signal })).status,
  );
}

async function stateOf(read: () => Promise<State>): Promise<State> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { phase: undefined };
    throw error;
  }
}
