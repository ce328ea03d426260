import { test } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import { withDefaults } from "../../../crds/defaults.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod, PodStatus } from "../../../crds/kubernetes.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { conclude } from "../../../operator/claim/conclude.ts";
import { type ArchiveAnswer, findArchive } from "../../../operator/claim/find-archive.ts";
import { renderSnapshotsClaim } from "../../../operator/snapshots/helper-pod.ts";
import { onS3, testOperator } from "../operator/test-operator.ts";
import { silentLog } from "../silent-log.ts";
import { archive, runningHelper } from "../snapshots/helper-objects.ts";

interface Case {
  /** @default true */
  resume?: boolean;
  /** @default ["/data"] */
  keeps?: string[];
  /** What the volume has, or fails with. @default undefined */
  has?: SnapshotMetadata | Error;
  /** @default true */
  hasHelper?: boolean;
  /** @default one that runs */
  helper?: Pod;
  /** Whether there is a volume. @default false */
  hasVolume?: boolean;
  /** The checkpoint of a session. @default there is none */
  checkpoint?: SnapshotMetadata;
  /** Of the claim. @default it has had no pod yet */
  status?: Pick<ClaimStatus, "podIncarnation" | "sessionStart" | "sessionSnapshot">;
  /** What the claim asks for by the time that the first look has ended. @default what it asked for before */
  thenVersion?: string;
  /** Of the store. @default volume */
  kind?: "volume" | "s3";
}

/** Asks until an answer is known or written to the claim. */
async function ask({
  resume = true,
  keeps = ["/data"],
  has,
  hasHelper = true,
  helper = runningHelper(),
  thenVersion,
  kind = "volume",
  hasVolume = false,
  checkpoint,
  status,
}: Case) {
  let looks = 0;
  let wake: () => void = () => undefined;
  const said: string[] = [];
  const say = (level: string) => (_fields: object, message: string) => void said.push(`${level}: ${message}`);
  const { api, context } = testOperator({
    env: kind === "s3" ? onS3 : {},
    snapshots: {
      async find() {
        looks += 1;
        if (has instanceof Error) throw has;
        return has;
      },
      async findCheckpoint(_key, { session }) {
        if (has instanceof Error) throw has;
        return checkpoint?.session === session ? checkpoint : undefined;
      },
    },
    log: { ...silentLog, info: say("info"), warn: say("warn") },
    enqueueClaim: () => wake(),
  });
  if (hasHelper) api.add(pods, helper);
  if (hasVolume)
    api.add(persistentVolumeClaims, renderSnapshotsClaim({ namespace: "n", size: "1Gi", storageClass: undefined }));
  let claim = api.add(claims, {
    metadata: { name: "claim-t-w", uid: "claim-uid" },
    spec: { tenantId: "t", workloadRef: "w", resume },
    ...(status && { status: { phase: "Pending", ...status } }),
  });
  const { overlayDirs } = withDefaults({ image: { ref: "i" }, filesystem: { overlayDirs: keeps } }).filesystem;
  const ended = new Promise<void>((resolve) => {
    wake = resolve;
  });
  let answer: ArchiveAnswer = await findArchive(claim, overlayDirs, context);
  if (!answer.known) {
    const asked = hasVolume ? ["get persistentvolumeclaims"] : [];
    const called = api.calls.map(({ verb, kind }) => `${verb} ${kind}`);
    assert.equal(called, asked, "it waits for the look");
    await ended;
    if (thenVersion !== undefined) claim = { ...claim, spec: { ...claim.spec, resumeVersion: thenVersion } };
    answer = await findArchive(claim, overlayDirs, context);
  }
  if (!answer.known) answer = { known: false, result: await conclude(claim, answer.result, context) };
  return { answer, looks, said, written: api.read(claims, "claim-t-w").status };
}

const known: [string, Case, SnapshotMetadata | undefined, number][] = [
  ["nothing without resume, and does not look", { resume: false, has: archive }, undefined, 0],
  ["nothing where nobody ever kept files, and does not look", { keeps: [], hasHelper: false }, undefined, 0],
  ["the archive in object storage, without a helper pod", { has: archive, hasHelper: false, kind: "s3" }, archive, 1],
  ["nothing for a workload that keeps none, of a tenant without an archive", { keeps: [] }, undefined, 1],
  ["nothing for a tenant without an archive", {}, undefined, 1],
  ["the archive", { has: archive }, archive, 1],
  ["the archive of fewer directories than are kept now", { has: archive, keeps: ["/more", "/data/"] }, archive, 1],
];

for (const [what, given, archiveFound, looks] of known) {
  test(`findArchive finds ${what}`, async () => {
    const asked = await ask(given);
    assert.equal(asked.answer, { known: true, archive: archiveFound });
    assert.is(asked.looks, looks);
    assert.is(asked.written, undefined);
  });
}

const checkpoint: SnapshotMetadata = { ...archive, sha256: "c".repeat(64), kind: "checkpoint", session: "claim-uid" };
const sessions: [string, Case, SnapshotMetadata | undefined][] = [
  ["the checkpoint of a session that has lost a pod, also without resume", { resume: false, checkpoint }, checkpoint],
  ["that also beside the tenant's archive", { has: archive, checkpoint }, checkpoint],
  [
    "that also beside what was saved when an earlier pod was taken away",
    { has: archive, checkpoint, status: { podIncarnation: 2, sessionSnapshot: "a" } },
    checkpoint,
  ],
  ["the archive for a session that has lost a pod and has no checkpoint", { has: archive }, archive],
  ["nothing without resume for such a session", { resume: false, has: archive }, undefined],
  ["no checkpoint of another session", { resume: false, checkpoint: { ...checkpoint, session: "other" } }, undefined],
  ["no checkpoint for a claim that has had no pod", { resume: false, checkpoint, status: {} }, undefined],
  [
    "none of a session whose pod was destroyed on request",
    { resume: false, checkpoint, status: { podIncarnation: 3, sessionStart: 2 } },
    undefined,
  ],
];

for (const [what, given, found] of sessions) {
  test(`findArchive finds ${what}`, async () => {
    const { answer, written } = await ask({ status: { podIncarnation: 1 }, ...given });
    assert.equal(answer, { known: true, archive: found });
    assert.is(written?.phase, "Pending");
  });
}

test("findArchive has a claim without resume wait if its session may have a checkpoint that cannot be looked for", async () => {
  const given = { resume: false, has: new Error("the disk does not answer"), status: { podIncarnation: 1 } };
  const { answer, written } = await ask(given);
  assert.is(answer.known, false);
  assert.equal([written?.phase, written?.reason], ["Pending", "SnapshotsUnavailable"]);
  const never = await ask({ resume: false, hasHelper: false, status: { podIncarnation: 1 } });
  assert.equal(never.answer, { known: true, archive: undefined }, "there is no volume");
});

test("findArchive finds the archive of a directory inside one that is kept now", async () => {
  const inside = { ...archive, overlayDirs: ["/data/sub", "/data"] };
  assert.equal((await ask({ has: inside })).answer, { known: true, archive: inside });
});

test("findArchive looks anew for a claim that asks for another version meanwhile", async () => {
  const { answer, looks } = await ask({ has: archive, thenVersion: "0123456789abcdef" });
  assert.equal([answer, looks], [{ known: false, result: undefined }, 2]);
});

const refused: [string, Case, RegExp][] = [
  ["holds a directory that is not kept now", { has: archive, keeps: ["/other"] }, /files of \/data, .*add it to spec/],
  ["holds one whose name only begins alike", { has: archive, keeps: ["/dat"] }, /files of \/data,/],
  ["is of a workload that keeps none now", { has: archive, keeps: [] }, /files of \/data,/],
  [
    "is of a workload that keeps none now, while the helper pod is replaced",
    { has: archive, keeps: [], hasHelper: false, hasVolume: true },
    /files of \/data,/,
  ],
  [
    "is not what was saved",
    { has: new ArchiveError("Corrupt", "it has changed") },
    /cannot be restored: it has changed/,
  ],
];

for (const [what, given, message] of refused) {
  test(`findArchive fails the claim when the archive ${what}`, async () => {
    const { answer, written } = await ask(given);
    assert.equal(answer, { known: false, result: undefined });
    assert.equal([written?.phase, written?.reason], ["Error", "RestoreFailed"]);
    assert.match(written?.message ?? "", message);
  });
}

test("findArchive has the claim wait, and says why, when the volume cannot be looked at", async () => {
  const { answer, written, said } = await ask({ has: new Error("the disk does not answer") });
  assert.ok(!answer.known && (answer.result?.requeueAfterMs ?? 0) > 0);
  assert.equal([written?.phase, written?.reason], ["Pending", "SnapshotsUnavailable"]);
  assert.match(written?.message ?? "", /cannot check yet whether the tenant has saved files: the disk does not answer/);
  assert.equal(said, ["warn: cannot look for the tenant's archive"]);
});

test("findArchive says what object storage fails with, and nothing of a helper pod", async () => {
  const { written } = await ask({ has: new Error("503 SlowDown"), hasHelper: false, kind: "s3" });
  assert.is(written?.reason, "SnapshotsUnavailable");
  assert.match(written?.message ?? "", /cannot check yet whether the tenant has saved files: 503 SlowDown$/);
});

test("findArchive takes a helper pod that still starts for what it is, and says what it waits for", async () => {
  const status: PodStatus = {
    phase: "Pending",
    conditions: [
      {
        type: "PodScheduled",
        status: "False",
        reason: "Unschedulable",
        message: "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
      },
    ],
  };
  const { written, said } = await ask({
    has: new ExecError("Cannot run a command: pod tenancy-snapshots does not have a host assigned", {
      reason: "ContainerNotRunning",
    }),
    helper: { ...runningHelper(), status },
  });
  assert.equal([written?.phase, written?.reason], ["Pending", "SnapshotsUnavailable"]);
  assert.match(
    written?.message ?? "",
    /cannot check yet whether the tenant has saved files: helper pod tenancy-snapshots, which holds the snapshots volume, is not running yet: .*unbound immediate PersistentVolumeClaims/,
  );
  assert.equal(said, ["info: claim waits for the snapshots helper pod"]);
});

test.run();
