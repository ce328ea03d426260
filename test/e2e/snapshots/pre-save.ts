import * as assert from "uvu/assert";
import { events } from "../../../crds/client/built-in-resources.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import type { Case } from "../../at-once.ts";
import type { LifeContext } from "./life-suite.ts";
import { idleProgram, type Lifecycle, NAMESPACE } from "./lifecycle.ts";

/** Holds a line in memory, which is in no file until the program is asked for it. */
const program = idleProgram(
  'held="memory of $HOSTNAME"; trap \'echo "$held" > /data/part; mv /data/part /data/held\' USR1',
);

function keeping(preSave: NonNullable<NonNullable<WorkloadSpec["filesystem"]>["preSave"]>): Partial<WorkloadSpec> {
  return {
    entrypoint: program,
    resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
    filesystem: { overlayDirs: ["/data"], preSave },
  };
}

const shell = (script: string) => ["/bin/busybox", "sh", "-c", script];

export async function preparePreSave(life: Lifecycle): Promise<void> {
  const ask = shell("rm -f /data/held; kill -USR1 1; until [ -e /data/held ]; do sleep 0.1; done");
  await life.createWorkload("asked", keeping({ command: ask, timeoutSeconds: 120 }));
  const unless = shell("[ -e /data/ready ] || { echo 'the database is locked' >&2; exit 5; }");
  await life.createWorkload("strict", keeping({ command: unless }));
  await life.createWorkload("lenient", keeping({ command: unless, onError: "Continue" }));
}

async function writeOut({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("holds", "asked", true);
  assert.is(await life.run(claim.status?.instanceId, "$b ls /data"), "", "it is in no file");
  await life.release(claim);
  const next = await life.claim("holds", "asked", true);
  assert.is(next.status?.source, "cold+data");
  const held = await life.run(next.status?.instanceId, "$b cat /data/held");
  assert.is(held, `memory of ${claim.status?.instanceId}\n`);
}

async function waitForIt({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("waits", "strict", false);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  await life.deleteClaim(claim);
  await life.untilReleaseFails(claim, /filesystem\.preSave ended with 5: the database is locked/);
  await life.run(claim.status?.instanceId, "touch /data/ready");
  await life.untilGone(claim);
  const next = await life.claim("waits", "strict", true);
  assert.is(await life.kept(next), "kept\n");
}

async function goOn({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("goes-on", "lenient", false);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  await life.release(claim);
  let seen: string[] = [];
  await waitUntil(
    async () => {
      const { items } = await life.client.list(events, { namespace: NAMESPACE });
      const about = items.filter(({ involvedObject }) => involvedObject.uid === claim.metadata.uid);
      seen = about.map(({ reason, message }) => `${reason}: ${message}`);
      return seen.some((line) => /^PreSaveFailed: .*the database is locked; the files are saved/.test(line));
    },
    { what: "an Event", limitMs: 120_000, intervalMs: 100, explain: () => seen.join("\n") },
  );
  const next = await life.claim("goes-on", "lenient", true);
  assert.is(await life.kept(next), "kept\n");
}

export const preSaveCases: readonly Case<LifeContext>[] = [
  ["a program writes out what it holds in memory when it is asked, and finds it after a resume", writeOut],
  ["a release waits for a preSave that fails, says why, and ends when it works", waitForIt],
  ["with onError Continue a release goes on, and an Event says that preSave failed", goOn],
];
