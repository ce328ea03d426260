// @runtimes node bun deno
// A process of the AI SDK's spawn does not outlive a spawn that fails.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createSpawn } from "../../../edge/adapters/ai-sdk/spawn.ts";
import { type ApiError, createClient } from "../../../edge/client/index.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { clientEdge, KEY } from "../rest-client/client-edge.ts";

const test = suite("AI SDK: spawn");
const place = { tenant: "ann", workload: "app" };
let running: Awaited<ReturnType<typeof clientEdge>>;

test.before(async () => {
  // No connection to a process may be opened.
  const quotas = { current: () => ({ of: () => ({ limits: { terminals: 0 } }) }), problem: () => undefined };
  running = await clientEdge({ quotas: quotas as never });
});
test.after(() => running.stop());

/** Spawns with a client that calls `onStarted` before it gets the answer of a start. @returns the error */
async function failedSpawn({ signal, onStarted }: { signal?: AbortSignal; onStarted?: () => void }): Promise<unknown> {
  let isStarted = false;
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const response = await globalThis.fetch(url, init);
    if (init.method === "POST" && url.endsWith("/processes")) {
      isStarted = response.ok;
      onStarted?.();
      init.signal?.throwIfAborted();
    }
    return response;
  };
  const spawn = createSpawn(createClient({ url: running.url, key: KEY, retries: 0, fetch }), place);
  const options = { cwd: "/", env: { PATH: "/bin:/usr/bin" }, timeoutSeconds: 300, signal };
  const error = await errorOf(spawn("exec sleep 300", options));
  assert.ok(isStarted, String(error));
  return error;
}

async function untilNoneRuns(): Promise<void> {
  const { processes } = createClient({ url: running.url, key: KEY });
  await eventually(async () => (await processes.list(place)).every(({ state }) => state === "ended"));
}

test("a process that cannot be attached to is ended", async () => {
  assert.match(((await failedSpawn({})) as ApiError).message, "cannot be opened");
  await untilNoneRuns();
});

test("a process is ended whose spawn is aborted while it starts", async () => {
  const end = new AbortController();
  const onStarted = () => end.abort(new Error("enough"));
  assert.is(((await failedSpawn({ signal: end.signal, onStarted })) as Error).message, "enough");
  await untilNoneRuns();
});

test.run();
