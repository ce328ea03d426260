import { test } from "uvu";
import * as assert from "uvu/assert";
import { runPath } from "../../../scripts/bench/run-path.ts";

const quiet = { path: "pool", limitMs: 60_000, log: () => undefined, signal: new AbortController().signal };

test("runPath: gives what was measured", async () => {
  const measurements = [{ path: "pool", samplesMs: [1], missed: 0, failures: {} }];
  assert.equal(await runPath({ ...quiet, run: async () => measurements }), { kind: "measured", measurements });
});

test("runPath: a path that fails is a result, so that the next can run", async () => {
  const error = new Error("no pods");
  const result = await runPath({ ...quiet, run: () => Promise.reject(error) });
  assert.equal(result, { kind: "failed", path: "pool", error });
});

test("runPath: a path that never ends is cut at its limit, and told so", async () => {
  let told: AbortSignal | undefined;
  const result = await runPath({
    ...quiet,
    limitMs: 5,
    run(signal) {
      told = signal;
      return new Promise(() => undefined);
    },
  });
  assert.is(result.kind, "failed");
  assert.match(result.kind === "failed" ? String(result.error) : "", /not done within 0.005 s/);
  assert.ok(told?.aborted);
});

test("runPath: a stop of the whole bench is no path's failure", async () => {
  const stop = new AbortController();
  const running = runPath({ ...quiet, signal: stop.signal, run: () => new Promise(() => undefined) });
  stop.abort(new Error("stopped by SIGINT"));
  await running.then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, "stopped by SIGINT"),
  );
});

test.run();
