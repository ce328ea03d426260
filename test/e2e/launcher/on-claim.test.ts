// A program that starts with its claim, or is told of it, in real containers.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { configMaps, persistentVolumeClaims, pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { KubernetesObject, Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { claimName } from "../../../crds/names.ts";
import { defineResource } from "../../../crds/resource.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { readIfThere, unlessGone } from "../../../scripts/cluster/process/read-if-there.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { testAtOnce } from "../../at-once.ts";
import { startRestEdge } from "../../cluster/rest/rest-edge.ts";
import { patiently } from "../claims/patiently.ts";
import { podProcesses } from "../pod-processes.ts";
import { type LifeContext, lifeSuite } from "../snapshots/life-suite.ts";
import { type Lifecycle, NAMESPACE } from "../snapshots/lifecycle.ts";

const persistentVolumes = defineResource<KubernetesObject & { spec: object }>({
  ...{ group: "", version: "v1", plural: "persistentvolumes", kind: "PersistentVolume" },
  namespaced: false,
});
const USE = "tenancy.dev/use";
const LIMIT_MS = 180_000;
const RUNS = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
/** Writes down each of its starts, with what it found. */
const NOTES = `found=nothing; [ ! -e /data/file ] || read -r found < /data/file; echo "$found" >> /data/starts; ${RUNS}`;

function onClaim(script: string, more: Partial<WorkloadSpec> = {}): Partial<WorkloadSpec> {
  return {
    entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", script], start: "OnClaim" },
    resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
    ...more,
  };
}

/** Runs in warm pods. */
function toldBy(call: object, script = RUNS): Partial<WorkloadSpec> {
  const entrypoint = { cmd: "/bin/busybox", args: ["sh", "-c", script], onClaim: { ...call, timeoutSeconds: 5 } };
  return { entrypoint, resources: { vcpus: 1, memoryMb: 64, diskGb: 1 } };
}

const CLAIM_FOLDER = "/run/tenancy/claim";
/** Notes each claim with the secret and the file that it finds. */
const NOTE_CLAIM = `cd ${CLAIM_FOLDER}; { cat; cat secrets/TOKEN files/data/settings; echo; } >> /data/told 2> /tmp/none`;
const KILL = "read -r pid < /run/tenancy/program; kill -9 $pid; sleep 4";
/** Until somebody lets it pass. */
const REFUSE = `cat ${CLAIM_FOLDER}/secrets/TOKEN; [ -e /data/passes ]`;
const CGI = `mkdir -p /tmp/www/cgi-bin; cd /tmp/www/cgi-bin
printf '%s\n' '#!/bin/sh' 'head -c "$CONTENT_LENGTH" > /tmp/www/index.html' 'printf "Status: 200 OK\\r\\n\\r\\n"' > claimed
chmod +x claimed; exec /bin/busybox httpd -f -p 8080 -h /tmp/www`;

const test = lifeSuite("a program that starts with its claim", {
  name: "on-claim",
  async prepare(life) {
    await Promise.all([
      life.createWorkload("notes", onClaim(NOTES)),
      life.createWorkload("cold", onClaim(NOTES)),
      life.createWorkload("ends", onClaim("exit 3")),
      life.createWorkload(
        "slow",
        onClaim("sleep 3; exec /bin/busybox httpd -f -p 8080 -h /", { network: { ports: [8080] } }),
      ),
      life.createWorkload("inputs", onClaim(`printf '%s' "$TENANT|$TOKEN|" > /data/found; ${RUNS}`)),
      life.createWorkload(
        "hooked",
        onClaim('printf %s "$LANG $TOKEN" > /data/index.html; exec /bin/busybox httpd -f -p 8080 -h /data', {
          network: { ports: [8080] },
        }),
      ),
      life.createWorkload("told", toldBy({ exec: { command: ["/bin/sh", "-c", NOTE_CLAIM] } })),
      life.createWorkload("asked", {
        ...toldBy({ httpPost: { path: "/cgi-bin/claimed" } }, CGI),
        network: { ports: [8080] },
        filesystem: { overlayDirs: [] },
      }),
      life.createWorkload("dies", toldBy({ exec: { command: ["/bin/sh", "-c", KILL] } })),
      life.createWorkload("refuses", toldBy({ exec: { command: ["/bin/sh", "-c", REFUSE] } })),
      life.createWorkload("no-files", onClaim(`echo up > /tmp/up; ${RUNS}`, { filesystem: { overlayDirs: [] } })),
    ]);
  },
});

/** Ends the program. The command can fail, since it ends with the container: wait for the effect. */
const kill = (life: Lifecycle, pod: string | undefined) =>
  life.run(pod, `read -r pid < /run/tenancy/program; $b kill -9 "$pid"`).catch(() => "");

/** What the program has noted of its starts, once there are so many. A claim is Active before the first is noted. */
async function untilStarted(life: Lifecycle, { status }: Claim, times: number): Promise<string> {
  let noted = "";
  await waitUntil(
    async () => {
      noted = await life.run(status?.instanceId, "$b cat /data/starts").catch(() => "");
      return noted.split("\n").length > times;
    },
    { what: `start ${times}`, limitMs: LIMIT_MS, intervalMs: 500, explain: () => noted },
  );
  return noted;
}

/** What is in files of the claim's pod, once its program has written the first of them. */
const written = (life: Lifecycle, pod: string | undefined, [first = "", ...others]: readonly string[]) =>
  life.run(pod, `until [ -s ${first} ]; do $b sleep 0.1; done; $b cat ${[first, ...others].join(" ")}`);

async function warmPods({ client }: Lifecycle, workload: string): Promise<Pod[]> {
  const labelSelector = `${label.workload}=${workload},${label.poolStatus}=ready`;
  return (await client.list(pods, { namespace: NAMESPACE, labelSelector })).items;
}

async function startWithFiles({ life }: LifeContext): Promise<void> {
  await life.createPool("notes", "notes", 1);
  const [warm] = await warmPods(life, "notes");
  assert.is(await life.run(warm?.metadata.name, "$b ls -A /data"), "", "it has not started");
  const first = await life.claim("alice", "notes", true);
  assert.equal([first.status?.source, first.status?.instanceId], ["pool", warm?.metadata.name]);
  assert.is(await untilStarted(life, first, 1), "nothing\n");
  await life.run(first.status?.instanceId, "echo kept > /data/file");
  await life.release(first);
  await life.untilPool("notes", 1);
  const next = await life.claim("alice", "notes", true);
  assert.is(next.status?.source, "pool+data");
  assert.is(await untilStarted(life, next, 2), "nothing\nkept\n");
  const steps = next.status?.timeline?.map(({ step }) => step) ?? [];
  assert.ok(steps.indexOf("FilesTo") < steps.indexOf("ProgramStarted"), steps.join());
}

/** The launcher starts it again with its container, and the operator where the launcher has lost its memory. */
async function startAgain({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("bob", "cold", true);
  const { instanceId } = claim.status ?? {};
  await untilStarted(life, claim, 1);
  await kill(life, instanceId);
  await untilStarted(life, claim, 2);
  await life.run(instanceId, "$b rm /run/tenancy/claimed");
  await kill(life, instanceId);
  await untilStarted(life, claim, 3);
  assert.is((await life.find(claim))?.status?.instanceId, instanceId);
}

async function waitForHealth({ life }: LifeContext): Promise<void> {
  await life.createPool("slow", "slow", 1);
  const claim = await life.claim("carol", "slow", false);
  assert.is(claim.status?.source, "pool");
  await life.run(claim.status?.instanceId, `$b nc -w 2 ${claim.status?.endpoint?.host} 8080 -e $b true`);
}

/** It would end in each of its warm pods. */
async function sayWhyItEnds(life: Lifecycle, workload: string, why: RegExp): Promise<void> {
  await life.createPool(workload, workload, 2);
  const names = async () => (await warmPods(life, workload)).map(({ metadata }) => metadata.name);
  const before = await names();
  const claim = await life.createClaim("dora", workload, false);
  const failed = await life.untilClaim(claim, "to fail", (status) => status?.phase === "Error");
  assert.is(failed.status?.reason, "CrashLooping");
  assert.match(failed.status?.message ?? "", why);
  const after = await names();
  // The one that is made in its place may not be ready yet.
  const taken = before.filter((name) => !after.includes(name));
  assert.is(taken.length, 1, `taken of ${before.join()}: ${taken.join()}`);
}

async function startWithoutFiles({ life }: LifeContext): Promise<void> {
  await life.createPool("no-files", "no-files", 1);
  const claim = await life.claim("eve", "no-files", false);
  assert.equal([claim.status?.source, claim.status?.overlayId], ["pool", undefined], "it has no files to save");
  assert.is(await written(life, claim.status?.instanceId, ["/tmp/up"]), "up\n");
  await life.release(claim);
}

/** The environments of a pod's processes and the files of its containers, as this machine has them. */
function seenFromOutside(podUid: string): string {
  const found: string[] = [];
  for (const pid of podProcesses(podUid)) {
    found.push(readIfThere(`/proc/${pid}/environ`) ?? "");
    for (const folder of ["run/tenancy", "data", "tmp"]) {
      const path = `/proc/${pid}/root/${folder}`;
      const entries = unlessGone(() => readdirSync(path, { recursive: true, withFileTypes: true }), ["ENOTDIR"]) ?? [];
      for (const entry of entries)
        if (entry.isFile()) found.push(readIfThere(join(entry.parentPath, entry.name)) ?? "");
    }
  }
  return found.join("\n");
}

/** Many at once, each with a secret of its own: what a program got is what its own claim brought. */
async function bringInputs({ life }: LifeContext): Promise<void> {
  await life.createPool("inputs", "inputs", 2);
  const tenants = Array.from({ length: 10 }, (_, index) => `guest-${index}`);
  const secretOf = (tenant: string) => `only for ${tenant} '"$(exit 3)\n`;
  const claimed = await Promise.all(
    tenants.map(async (tenant) => {
      const data = { TOKEN: Buffer.from(secretOf(tenant)).toString("base64") };
      const name = `inputs-${tenant}`;
      await life.client.create(secrets, { metadata: { name, namespace: NAMESPACE, labels: { [USE]: "claim" } }, data });
      const inputs = {
        env: { TENANT: tenant },
        secretRef: { name },
        files: [
          { path: "/data/settings/own", content: `file of ${tenant}` },
          { path: "/tmp/token", secretRef: { name, key: "TOKEN" }, mode: "0400" },
        ],
      };
      const spec = { tenantId: tenant, workloadRef: "inputs", inputs };
      const metadata = { name: claimName(spec), namespace: NAMESPACE, labels: { [label.tenant]: tenant } };
      return { tenant, claim: await life.client.create(claims, { metadata, spec }) };
    }),
  );
  await Promise.all(
    claimed.map(async ({ tenant, claim }) => {
      const active = await life.untilClaim(claim, "to be Active", (status) => status?.phase === "Active");
      const found = await written(life, active.status?.instanceId, ["/data/found", "/data/settings/own", "/tmp/token"]);
      assert.is(found, `${tenant}|${secretOf(tenant)}|file of ${tenant}${secretOf(tenant)}`);
      const steps = active.status?.timeline?.map(({ step }) => step) ?? [];
      assert.ok(steps.includes("InputsGiven"), steps.join());
    }),
  );
  const found = await Promise.all(claimed.map(({ claim }) => life.find(claim)));
  const held = new Set(found.map((claim) => claim?.status?.instanceId));
  const own = await life.client.list(pods, { namespace: NAMESPACE, labelSelector: `${label.workload}=inputs` });
  for (const { metadata } of own.items) {
    const { name, uid = "", labels } = metadata;
    const seen = seenFromOutside(uid);
    const ofWhom = tenants.filter((one) => seen.includes(`only for ${one} '`));
    // A claim leaves a pod that has not started yet for a warm one that has become ready.
    assert.equal(ofWhom, held.delete(name) ? [labels?.[label.tenant]] : [], `pod ${name}`);
  }
  assert.equal([...held], [], "every claim's pod was looked at");
  // A container that starts again has lost what is outside of volumes.
  const [first] = claimed;
  if (first === undefined) throw new Error("unreachable");
  const active = await life.find(first.claim);
  await life.run(active?.status?.instanceId, "$b rm /data/found");
  await kill(life, active?.status?.instanceId);
  const foundAgain = () => life.run(active?.status?.instanceId, "$b cat /data/found /tmp/token").catch(() => "");
  const secret = secretOf(first.tenant);
  await waitUntil(async () => (await foundAgain()) === `${first.tenant}|${secret}|${secret}`, {
    ...{ what: "the program to find its inputs again", limitMs: LIMIT_MS, intervalMs: 500 },
  });
  for (const { claim } of claimed) await life.deleteClaim(claim);
  for (const { claim } of claimed) await life.untilGone(claim);
}

/** By the API, with the same rules: a call that brings the same joins the claim, and one that brings others does not. */
async function bringInputsByApi({ life }: LifeContext): Promise<void> {
  await life.createWorkload("early", { resources: { vcpus: 1, memoryMb: 64, diskGb: 1 } });
  const edge = await startRestEdge("bun", { KUBECONFIG: life.cluster.kubeconfigPath });
  const path = "/api/v1/tenants/ivy/claim";
  const claim = (body: object) => patiently(() => edge.call("POST /api/v1/tenants/{id}/claim", { path, body }));
  const token = `of ivy '"$(exit 3)\nü`;
  const file = { path: "/data/settings/own", content: "ivy's settings ü" };
  const body = { workload: "inputs", env: { TENANT: "ivy" }, secrets: { TOKEN: token }, files: [file] };
  const ownSecrets = async () =>
    (await life.client.list(secrets, { namespace: NAMESPACE })).items.filter(
      ({ type }) => type === "tenancy.dev/claim",
    );
  try {
    const first = await claim(body);
    assert.is(first.status, 201, first.text);
    const { instanceId } = first.json as { instanceId: string };
    const found = await written(life, instanceId, ["/data/found", "/data/settings/own"]);
    assert.is(found, `ivy|${token}|${file.content}`);
    const asBytes = { path: file.path, base64: Buffer.from(file.content).toString("base64"), mode: "600" };
    for (const same of [{ ...body, files: [asBytes] }, { workload: "inputs" }]) {
      const { status, json } = await claim(same);
      const { source, instanceId: joined } = json as { source: string; instanceId: string };
      assert.equal([status, source, joined], [201, "existing", instanceId]);
    }
    const other = await claim({ ...body, secrets: { TOKEN: "planted" }, files: [] });
    assert.is(other.status, 409);
    assert.match(other.text, 'different: \\"files./data/settings/own\\", \\"secrets.TOKEN\\")');
    for (const value of ["planted", "of ivy", "settings ü"]) assert.not(other.text.includes(value));

    const early = await claim({ ...body, workload: "early" });
    assert.is(early.status, 400, early.text);
    assert.match(early.text, "set the workload's entrypoint.start to OnClaim");
    const wrong = await claim({ ...body, env: { TENANCY_X: "planted" }, files: [{ path: "own", content: "planted" }] });
    assert.is(wrong.status, 400, wrong.text);
    assert.not(wrong.text.includes("planted"));
    const made = await life.client.list(claims, { namespace: NAMESPACE, labelSelector: `${label.tenant}=ivy` });
    assert.equal(
      made.items.map(({ spec }) => spec.workloadRef),
      ["inputs"],
    );
    assert.not(JSON.stringify(made).includes("of ivy '"));
    assert.equal(
      (await ownSecrets()).map(({ metadata }) => metadata.name),
      [made.items[0]?.spec.inputs?.secretRef?.name],
    );
    for (const own of made.items) await life.release(own);
    await waitUntil(async () => (await ownSecrets()).length === 0, {
      ...{ what: "the Secret to go with its claim", limitMs: LIMIT_MS, intervalMs: 500 },
    });
    assert.equal(edge.problems, []);
  } finally {
    await edge.stop();
  }
}

/** What the claim of an event brings, and that a second trigger joins it as it is. */
async function bringInputsByTrigger({ life }: LifeContext): Promise<void> {
  const metadata = { name: "for-hooks", namespace: NAMESPACE, labels: { [USE]: "claim" } };
  await life.client.create(secrets, { metadata, stringData: { TOKEN: "of all hooks" } });
  const edge = await startRestEdge("bun", { KUBECONFIG: life.cluster.kubeconfigPath });
  const event = async (name: string, claim: object) => {
    const spec = {
      type: "webhook",
      workloadRef: "hooked",
      tenant: { static: "kim" },
      config: { path: `/hooks/${name}` },
    };
    const made = await edge.call("POST /api/v1/triggers", { body: { name, spec: { ...spec, claim } } });
    assert.is(made.status, 201, made.text);
    const path = `/api/v1/triggers/${name}/test`;
    let said = "";
    // On a busy machine its pod is not ready in time; 501 is the container's own word about a POST.
    const isAnswered = async () => {
      said = (await edge.call("POST /api/v1/triggers/{id}/test", { path, body: { data: {} } })).text;
      return said.includes("501");
    };
    const explain = () => said;
    await waitUntil(isAnswered, { what: `an answer to ${name}`, limitMs: LIMIT_MS, intervalMs: 500, explain });
  };
  const present = async () =>
    (await life.client.list(claims, { namespace: NAMESPACE, labelSelector: `${label.tenant}=kim` })).items;
  try {
    const inputs = { env: { LANG: "de" }, secretRef: { name: metadata.name } };
    await event("first", { inputs, labels: { team: "red" }, expiresInSeconds: 600 });
    const [claim, ...others] = await present();
    assert.equal(others, []);
    assert.is(await life.run(claim?.status?.instanceId, "$b cat /data/index.html"), "de of all hooks");
    const pod = await life.client.get(pods, { namespace: NAMESPACE, name: claim?.status?.instanceId ?? "" });
    assert.is(pod.metadata.labels?.["claim.tenancy.dev/team"], "red");
    assert.ok(claim?.spec.expiresAt);
    await event("second", { inputs: { env: { LANG: "fr" } }, labels: { team: "blue" } });
    assert.equal(
      (await present()).map(({ metadata: { uid }, spec }) => [uid, spec]),
      [[claim?.metadata.uid, claim?.spec]],
    );
    for (const one of await present()) await life.release(one);
    assert.equal(edge.problems, []);
  } finally {
    await edge.stop();
  }
}

/** The hook reads the claim after files are restored, and again after each start of the container. */
async function tellRunning({ life }: LifeContext): Promise<void> {
  await life.createPool("told", "told", 1);
  const [warm] = await warmPods(life, "told");
  const first = await life.claim("leo", "told", true);
  assert.equal([first.status?.source, first.status?.instanceId], ["pool", warm?.metadata.name]);
  const noted = (claim: Claim) => life.run(claim.status?.instanceId, "$b cat /data/told");
  const bare = '{"tenantId":"leo","workload":"told","env":{},"secrets":{},"files":{}}';
  assert.is(await noted(first), `${bare}\n`, "also of a claim that brings nothing");
  await life.release(first);

  const metadata = { name: "of-leo", namespace: NAMESPACE, labels: { [USE]: "claim" } };
  const token = "of leo '\"$(exit 3)";
  await life.client.create(secrets, { metadata, stringData: { TOKEN: token } });
  await life.untilPool("told", 1);
  const inputs = {
    ...{ env: { LANG: "de" }, secretRef: { name: metadata.name } },
    files: [{ path: "/data/settings", content: "settings" }],
  };
  const spec = { tenantId: "leo", workloadRef: "told", resume: true, inputs };
  const made = await life.client.create(claims, { metadata: { name: claimName(spec), namespace: NAMESPACE }, spec });
  const next = await life.untilClaim(made, "to be Active", (status) => status?.phase === "Active");
  assert.is(next.status?.source, "pool+data");
  const told = {
    ...{ tenantId: "leo", workload: "told", env: { LANG: "de" } },
    secrets: { TOKEN: `${CLAIM_FOLDER}/secrets/TOKEN` },
    files: { "/data/settings": `${CLAIM_FOLDER}/files/data/settings` },
  };
  const line = `${JSON.stringify(told)}${token}settings\n`;
  assert.is(await noted(next), `${bare}\n${line}`);
  const steps = next.status?.timeline?.map(({ step }) => step) ?? [];
  assert.equal(steps.slice(-4), ["FilesTo", "InputsGiven", "OnClaimCalled", "Active"]);

  const untilTold = (times: number) =>
    waitUntil(async () => (await noted(next).catch(() => "")) === `${bare}\n${line.repeat(times)}`, {
      ...{ what: `call ${times}`, limitMs: LIMIT_MS, intervalMs: 500 },
    });
  await kill(life, next.status?.instanceId);
  await untilTold(2);
  // As a restart of the node leaves it.
  await life.run(next.status?.instanceId, `$b rm -rf ${CLAIM_FOLDER}`);
  await kill(life, next.status?.instanceId);
  await untilTold(3);
  await life.release(next);
}

async function tellByRequest({ life }: LifeContext): Promise<void> {
  await life.createPool("asked", "asked", 1);
  const first = await life.claim("mia", "asked", false);
  assert.is(first.status?.source, "pool");
  const page = await life.run(first.status?.instanceId, "$b cat /tmp/www/index.html");
  assert.is(JSON.parse(page).tenantId, "mia");
  await life.release(first);
}

/** The claim waits for the hook, and says what is wrong without what the hook has printed. */
async function waitForHook({ life }: LifeContext): Promise<void> {
  const metadata = { name: "of-nora", namespace: NAMESPACE, labels: { [USE]: "claim" } };
  await life.client.create(secrets, { metadata, stringData: { TOKEN: "printed by the hook" } });
  const spec = { tenantId: "nora", workloadRef: "refuses", inputs: { secretRef: { name: metadata.name } } };
  const made = await life.client.create(claims, { metadata: { name: claimName(spec), namespace: NAMESPACE }, spec });
  const waiting = await life.untilClaim(made, "to say why", (status) => /ended with 1/.test(status?.message ?? ""));
  assert.is(waiting.status?.phase, "Pending");
  assert.is(waiting.status?.message, "Cannot call entrypoint.onClaim: it ended with 1");
  const labelSelector = `${label.tenant}=nora`;
  const [pod] = (await life.client.list(pods, { namespace: NAMESPACE, labelSelector })).items;
  await life.run(pod?.metadata.name, ": > /data/passes");
  const active = await life.untilClaim(made, "to be Active", (status) => status?.phase === "Active");
  assert.is(active.status?.instanceId, pod?.metadata.name);
  await life.release(active);
}

/** Files and variables that are the same for every tenant, also in a warm pod; none of them is saved. */
async function haveThePlatforms({ life }: LifeContext): Promise<void> {
  const { client, cluster } = life;
  const models = join(cluster.volumesFolder, "models");
  mkdirSync(life.inNode(models));
  writeFileSync(life.inNode(join(models, "weights")), "weights");
  const metadata = (name: string) => ({ name, namespace: NAMESPACE, labels: { [USE]: "workload" } });
  const room = { accessModes: ["ReadOnlyMany"], storageClassName: "" };
  await client.create(persistentVolumes, {
    metadata: { name: "models" },
    spec: {
      ...{ ...room, capacity: { storage: "1Mi" }, hostPath: { path: models } },
      claimRef: { namespace: NAMESPACE, name: "models" },
    },
  });
  await client.create(persistentVolumeClaims, {
    metadata: metadata("models"),
    spec: { ...room, volumeName: "models", resources: { requests: { storage: "1Mi" } } },
  });
  await client.create(configMaps, { metadata: metadata("settings"), data: { MODE: "fast", other: "unread" } });
  await client.create(secrets, { metadata: metadata("keys"), stringData: { TOKEN: "of the platform" } });
  const look = `cd /etc/settings; { echo "$SET_MODE|$TOKEN|$SHARED"; echo *; cat mode /keys/TOKEN /models/weights; } > /data/found
for place in /etc/settings /keys /models /scratch; do ( : > $place/new ) 2> /tmp/none && echo "$place" >> /data/written; done; ${RUNS}`;
  const spec = onClaim(look, {
    volumes: [
      { mountPath: "/etc/settings", configMap: { name: "settings", items: [{ key: "MODE", path: "mode" }] } },
      { mountPath: "/keys", secret: { secretName: "keys" } },
      { mountPath: "/models", persistentVolumeClaim: { claimName: "models" } },
      { mountPath: "/scratch", emptyDir: { sizeMb: 1 } },
    ],
  });
  const envFrom = [{ prefix: "SET_", configMapRef: { name: "settings" } }, { secretRef: { name: "keys" } }];
  await life.createWorkload("platform", {
    ...spec,
    entrypoint: { ...spec.entrypoint, envFrom, env: { SHARED: "own" } },
    health: { exec: { command: ["/bin/busybox", "grep", "-q", "scratch", "/data/written"] } },
  });
  await life.createPool("platform", "platform", 1);
  const claim = await life.claim("lea", "platform", false);
  assert.is(claim.status?.source, "pool");
  const found = await life.run(claim.status?.instanceId, "$b cat /data/found /data/written");
  assert.is(found, "fast|of the platform|own\nmode\nfastof the platformweights/scratch\n");
  await life.release(claim);
}

testAtOnce(test, [
  ["in a warm pod it starts when the pod is claimed, after the files are restored", startWithFiles],
  ["it is started again with its container, also where the launcher has lost its memory", startAgain],
  ["a claim is Active when the program is healthy", waitForHealth],
  ["a program that ends at once: the claim says why", ({ life }) => sayWhyItEnds(life, "ends", /exit code 3/)],
  ["a workload without files", startWithoutFiles],
  ["it finds the variables and files of its own claim", bringInputs],
  ["it finds what a claim call brings, and a call that brings something else is refused", bringInputsByApi],
  ["it finds what the claim of a trigger's event brings", bringInputsByTrigger],
  [
    "it finds the files and variables of its workload, of which it can change none; its check is a command",
    haveThePlatforms,
  ],
  ["a program that runs already is told of the claim by a command, again after each of its starts", tellRunning],
  ["by a request, where the workload has no files", tellByRequest],
  ["a claim is Active only when the call has succeeded", waitForHook],
  ["a program that the call ends takes no second pod", ({ life }) => sayWhyItEnds(life, "dies", /exit code 137/)],
]);

test("it never starts without its files, whenever the operator is killed", async ({ life }) => {
  await life.claim("frank", "notes", true).then(async (claim) => {
    await untilStarted(life, claim, 1);
    await life.run(claim.status?.instanceId, "rm /data/starts; echo kept > /data/file");
    await life.release(claim);
  });
  for (const [index, afterMs] of [0, 50, 150, 400].entries()) {
    await life.untilPool("notes", 1);
    const claim = await life.createClaim("frank", "notes", true);
    await life.untilClaim(claim, "to be seen", (_, found) => found !== undefined);
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    await life.killOperator();
    await life.startOperator();
    const active = await life.untilClaim(claim, "to be Active", (status) => status?.phase === "Active");
    const noted = (await untilStarted(life, active, index + 1)).trim().split("\n");
    assert.ok(
      noted.every((found) => found === "kept"),
      noted.join(),
    );
    await life.release(active);
  }
});

test.run();
