// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { answerCheckpoint } from "../edge/claim-calls.ts";
import { type SnapshotsFolder, snapshotsFolder } from "../edge/snapshots-folder.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { checkpoint } from "../snapshots/checkpoint-contract.ts";
import { call, listAll } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { allClaims, create, ROOT } from "./sandbox-calls.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
  claim: Claim;
  /** SHA-256 of the sandbox's version. */
  version: string;
  /** Aborted with the client of the call that is tested. */
  gone: AbortController;
  /** Whether the client leaves before the store copies, or when it has. */
  leaves: "before" | "after";
}

const test = suite<Context>("a client that leaves while files are copied for its sandbox");

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.gone = new AbortController();
  const { store } = context.served;
  const leave = () => context.gone.abort(new Error("the client left"));
  const watched: SnapshotStore = Object.assign(Object.create(store), {
    async adopt(...given: Parameters<SnapshotStore["adopt"]>) {
      // As where the store has got the request, and its answer is not read.
      const [to, from, { signal: _, ...rest }] = given;
      if (context.leaves === "before") leave();
      const committed = await store.adopt(to, from, { ...rest, signal: new AbortController().signal });
      leave();
      given[2].signal.throwIfAborted();
      return committed;
    },
  });
  context.edge = testEdge({ apiKey: ROOT, hasKeys: true, store: watched, clock: systemClock });
  const { cluster } = context.edge;
  cluster.addSnapshots();
  cluster.addWorkload("app", { entrypoint: { start: "OnClaim" }, filesystem: { overlayDirs: ["/data"] } });
  context.claim = (await create(context.edge)).claim;
  const { spec, status, metadata } = context.claim;
  const pod = cluster.read(pods, status?.instanceId ?? "");
  const annotations = { ...pod.metadata.annotations, [annotation.overlayDirs]: '["/data"]' };
  cluster.remove(pods, pod.metadata.name);
  const { resourceVersion, ...rest } = pod.metadata;
  cluster.add(pods, { ...pod, metadata: { ...rest, annotations } });
  const made = await checkpoint(store, "files", { to: spec, session: metadata.uid ?? "" });
  context.version = made.metadata.sha256;
  await store.setName(spec, { sha256: context.version, name: "v1" }, call);
});
test.after.each(async ({ served, volume, edge }) => {
  await edge.activity.close();
  await served.close();
  volume.remove();
});

/** Makes a call whose client leaves. */
async function ask({ edge, gone }: Context, path: string, body: object): Promise<Response> {
  const headers = { "x-api-key": ROOT, "content-type": "application/json" };
  const request = new Request(`http://x/e2b${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return await edge.handler(request, { clientGone: gone.signal });
}

async function onlyTheSandboxIsLeft({ edge, claim, served }: Context): Promise<void> {
  const saved = (await listAll(served.store, { versions: true })).map(({ tenantId }) => tenantId);
  assert.equal([...new Set(saved)], [claim.spec.tenantId]);
  assert.equal(
    allClaims(edge).map(({ metadata }) => metadata.name),
    [claim.metadata.name],
  );
}

for (const leaves of ["before", "after"] as const) {
  test(`a fork leaves no copies: the client leaves ${leaves} the store has them`, async (context) => {
    const { edge, claim, version } = context;
    context.leaves = leaves;
    const answer = ask(context, `/sandboxes/app--${claim.spec.tenantId}/fork`, { count: 4 });
    await answerCheckpoint(edge, claim.metadata.name, { sha256: version });
    const forks = (await (await answer).json()) as { sandbox?: object }[];
    assert.equal(
      forks.map(({ sandbox }) => sandbox),
      [undefined, undefined, undefined, undefined],
    );
    await onlyTheSandboxIsLeft(context);
  });

  test(`a sandbox from a snapshot leaves no copy: the client leaves ${leaves} the store has it`, async (context) => {
    context.leaves = leaves;
    const templateID = `app--${context.claim.spec.tenantId}:v1`;
    assert.is((await ask(context, "/sandboxes", { templateID })).status, 499);
    await onlyTheSandboxIsLeft(context);
  });
}

test.run();
