// @limit 900
import { readFileSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Answer, Measured } from "./messages.ts";
import { address } from "./namespaces.ts";
import { type Stage, startStage } from "./stage.ts";

const test = suite<{ stage: Stage }>("egress proxy, measured");
const token = { name: "github", key: "token" };
const paths = ["direct", "passed through", "with credentials"] as const;

test.before(async (context) => {
  context.stage = await startStage({
    network: {
      access: "restricted",
      allowlist: ["allowed.example"],
      credentials: [
        { domain: "api.example", headers: [{ name: "Authorization", valueFrom: { secretKeyRef: token } }] },
      ],
    },
    values: new Map([[token, "secret"]]),
    records: { "allowed.example": [address.allowed], "api.example": [address.allowed] },
  });
});
test.after(async ({ stage }) => stage?.stop());

test("latency and throughput against a direct connection, and memory", async ({ stage }) => {
  const idle = memory(stage);
  for (const version of [1, 2] as const) {
    const rounds: Record<string, Measured[]> = {};
    // Side by side, so that what else the machine does meets all alike.
    for (let round = 0; round < 3; round++) {
      for (const path of paths) {
        const url = `https://${path === "with credentials" ? "api" : "allowed"}.example`;
        const call = { kind: "measure", version, url, requests: 1000, downloadBytes: 256 << 20 } as const;
        const answer: Answer<Measured> = path === "direct" ? await stage.callDirectly(call) : await stage.call(call);
        assert.ok("value" in answer, `${path}: ${JSON.stringify(answer)}\n${stage.log()}`);
        rounds[path] = [...(rounds[path] ?? []), answer.value];
      }
    }
    const best = (path: string, of: (one: Measured) => number, pick: (...values: number[]) => number) =>
      pick(...(rounds[path] ?? []).map(of));
    for (const path of paths) {
      const p50 = best(path, ({ p50Ms }) => p50Ms, Math.min).toFixed(2);
      const p99 = best(path, ({ p99Ms }) => p99Ms, Math.min).toFixed(2);
      const rate = best(path, ({ mebibytesPerSecond }) => mebibytesPerSecond, Math.max).toFixed(0);
      console.log(`note: HTTP/${version} ${path}: p50 ${p50} ms, p99 ${p99} ms, ${rate} MiB/s (best of 3 rounds)`);
    }
  }
  console.log(`note: memory of the sidecar: ${idle} idle, ${memory(stage)} after 6 GiB`);
});

/** Resident memory, and in brackets what belongs to it alone. */
function memory(stage: Stage): string {
  const sizes = [stage.supervisor, ...stage.proxies()].map((pid) => readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"));
  const sum = (pattern: RegExp) =>
    sizes.reduce(
      (total, text) => total + [...text.matchAll(pattern)].reduce((part, [, kib]) => part + Number(kib), 0),
      0,
    );
  const mebibytes = (kib: number) => (kib / 1024).toFixed(1);
  return `${mebibytes(sum(/^Rss: +([0-9]+) kB$/gm))} MiB resident (${mebibytes(sum(/^Private_(?:Clean|Dirty): +([0-9]+) kB$/gm))} MiB private)`;
}

test.run();
