import { randomBytes } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { isNotFound, NetworkError } from "../../../crds/client/api-error.ts";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { BUSYBOX_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { eventually } from "../../eventually.ts";
import { shellStore } from "../../unit/snapshots/shell-store.ts";
import { call, key, load, save } from "../../unit/snapshots/store-contract.ts";
import { lifeSuite } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

const test = lifeSuite("the helper pod", {
  name: "helper",
  async prepare(life) {
    await life.createWorkload("keeps");
    const store = await open(life);
    await life.untilHelperRuns();
    await untilAnswers(store);
  },
});

const of = (tenantId: string) => ({ ...key, tenantId });
const reference = { namespace: NAMESPACE, name: SNAPSHOTS_NAME };

async function open(
  { client, cluster }: Lifecycle,
  access: "direct" | "api-server" = "direct",
): Promise<SnapshotStore> {
  const config = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  return openStore(
    { place: { kind: "volume", access }, mayBeEmpty: false },
    { client, cluster: config, namespace: NAMESPACE },
  ).archives;
}

async function answers(store: SnapshotStore): Promise<boolean> {
  return await store.look(of("nobody"), { ...call, timeoutMs: 5000 }).then(
    () => true,
    () => false,
  );
}

async function untilAnswers(store: SnapshotStore): Promise<void> {
  await eventually(() => answers(store));
}

async function errorOf(attempt: Promise<unknown>): Promise<unknown> {
  return await attempt.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** A save that is under way, and does not come to its end by itself. */
async function beginSave(store: SnapshotStore, to: typeof key): Promise<{ error: Promise<unknown> }> {
  let pieces = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) {
      yield randomBytes(1024 * 1024);
      pieces += 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  const error = errorOf(save(store, endless(), to));
  await eventually(() => pieces > 5);
  return { error };
}

function partials({ volumeFolder }: Lifecycle, tenantId: string): string[] {
  return readdirSync(join(volumeFolder, tenantId)).filter((name) => name.endsWith(".partial"));
}

for (const access of ["direct", "api-server"] as const) {
  test(`keeps and gives archives, reached ${access}`, async ({ life }) => {
    const store = await open(life, access);
    const to = of(access);
    const content = randomBytes(5_000_000).toString("latin1");
    await save(store, content, to);
    assert.is(await load(store, to), content);
    assert.ok(existsSync(join(life.volumeFolder, access, `${key.workloadRef}.tar.gz`)));
    assert.is(await store.delete(to, call), true);
    assert.is((await store.look(to, call)).state, "none");
  });
}

test("an instance does not reach it, where policies are enforced", async ({ life }) => {
  if (!life.cluster.policies.enforced) {
    console.log("note: no policies are enforced here");
    return;
  }
  await life.createWorkload("anywhere", { network: { access: "unrestricted" } });
  const claim = await life.claim("visitor", "anywhere", false);
  const { status } = await life.untilHelperRuns();
  const ask = (address: string | undefined, port: number): string =>
    `$b timeout 5 $b nc ${address} ${port} < /dev/null > /dev/null 2>&1 && echo reached || echo closed`;
  // It is not that it reaches nobody.
  const listener = createServer((socket) => socket.end());
  await new Promise<void>((resolve) => listener.listen(0, life.cluster.hostAddress, resolve));
  const { port } = listener.address() as AddressInfo;
  const reached = await life.run(claim.status?.instanceId, ask(life.cluster.hostAddress, port));
  listener.close();
  assert.is(reached.trim(), "reached");
  assert.is((await life.run(claim.status?.instanceId, ask(status?.podIP, 8443))).trim(), "closed");
  assert.ok(await answers(await open(life)));
});

test("killed in the middle of a save: what was there stays, and the next save leaves nothing behind", async (context) => {
  const { life, faults } = context;
  const store = await open(life);
  const to = of("killed");
  await save(store, "before", to);
  const saving = await beginSave(store, to);
  await faults.killHelper();
  assert.instance(await saving.error, NetworkError);
  await life.untilHelperRuns();
  await untilAnswers(store);
  assert.is(await load(store, to), "before");
  await save(store, "after", to);
  assert.is(await load(store, to), "after");
  assert.equal(partials(life, "killed"), []);
});

test("its program ends in the middle of a save: the kubelet starts it again, on the same volume", async (context) => {
  const { life, faults } = context;
  const store = await open(life);
  const to = of("ended");
  await save(store, "before", to);
  const before = await life.untilHelperRuns();
  const saving = await beginSave(store, to);
  await faults.endHelper();
  assert.instance(await saving.error, NetworkError);
  await untilAnswers(store);
  const after = await life.untilHelperRuns();
  assert.is(after.metadata.uid, before.metadata.uid);
  assert.is(await load(store, to), "before");
  await save(store, "after", to);
  assert.equal([await load(store, to), partials(life, "ended")], ["after", []]);
});

test("suspended: calls end when their time is up, and it goes on where it was", async ({ life, faults }) => {
  const store = await open(life);
  const to = of("suspended");
  await save(store, "before", to);
  await faults.freezeHelper();
  const error = await errorOf(store.look(to, { ...call, timeoutMs: 2000 }));
  assert.instance(error, NetworkError);
  await faults.thawHelper();
  await untilAnswers(store);
  assert.is(await load(store, to), "before");
});

test("a Secret that is emptied is filled anew, and everybody goes on with it", async ({ life }) => {
  const store = await open(life);
  const { data } = await life.client.get(secrets, reference);
  await life.client.patch(secrets, reference, { type: "json", body: [{ op: "remove", path: "/data" }] });
  // The leader looks at it when it next has to do with the pod.
  await life.client.patch(pods, reference, { type: "merge", body: { metadata: { annotations: { touched: "yes" } } } });
  const filled = async () => (await life.client.get(secrets, reference)).data?.token;
  await eventually(async () => ![undefined, data?.token].includes(await filled()));
  // Without the former ones, nobody is let in until the kubelet shows the pod what is new.
  await waitUntil(() => answers(store), { what: "the helper pod to know its new token", limitMs: 240_000 });
});

test("the helper of the version before is replaced, and what it has written is served", async ({ life }) => {
  const store = await open(life);
  await life.killOperator();
  await life.client.delete(pods, reference);
  const isGone = async () =>
    await life.client.get(pods, reference).then(
      () => false,
      (error: unknown) => isNotFound(error),
    );
  await eventually(isGone);
  await life.client.create(pods, formerHelper());
  await life.untilHelperRuns();
  const folder = { namespace: NAMESPACE, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER };
  const to = of("former");
  const written = await shellStore(life.exec, folder).write(to, "of the version before");
  assert.instance(await errorOf(store.look(to, { ...call, timeoutMs: 5000 })), NetworkError);
  await life.startOperator();
  await untilAnswers(store);
  assert.is((await store.look(to, call)).newest?.sha256, written.sha256);
  assert.is(await load(store, to), "of the version before");
});

/** As the version before rendered it. */
function formerHelper(): Pod {
  const script = "trap 'exit 0' TERM; while :; do /bin/busybox sleep 3600 & wait $!; done";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...reference, labels: SNAPSHOTS_LABELS },
    spec: {
      terminationGracePeriodSeconds: 5,
      securityContext: { runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532 },
      containers: [
        {
          name: SNAPSHOTS_CONTAINER,
          image: BUSYBOX_IMAGE,
          command: ["/bin/busybox", "sh", "-c", script],
          volumeMounts: [{ name: "snapshots", mountPath: "/snapshots" }],
        },
      ],
      volumes: [{ name: "snapshots", persistentVolumeClaim: { claimName: SNAPSHOTS_NAME } }],
    },
  };
}

test.run();
