// @limit 2400
// @own-cluster
import { readFileSync } from "node:fs";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, networkPolicies } from "../../../crds/client/built-in-resources.ts";
import type { BuildResult } from "../../../operator/builds/build-result.ts";
import { renderBuildsPolicy } from "../../../operator/builds/render-build.ts";
import { pushImages } from "../../../scripts/cluster/builds/push-images.ts";
import { findProcess, readClusterState } from "../../../scripts/cluster/cluster-state.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { slotOf } from "../../../scripts/cluster/slot.ts";
import { testAtOnce } from "../../at-once.ts";
import { apiForPods } from "../isolation/api-for-pods.ts";
import { startClusterDns } from "../isolation/cluster-dns.ts";
import { type Destination, destinations, probeScript, readAnswers, type Source } from "../isolation/destinations.ts";
import { startWorld, worldRecords } from "../isolation/world.ts";
import { listProcesses } from "../processes.ts";
import { type BuildCluster, startBuildCluster } from "./build-cluster.ts";
import { startPrivateRegistry } from "./private-registry.ts";

const NAME = "e2e-builder";
const BASE = "localhost/tenancy-busybox:1";
const test = suite("the builder's pod");
let builds: BuildCluster;

test.before(async () => {
  await installDebianPackages(["curl"], silent);
  builds = await startBuildCluster(NAME);
});
test.after(() => builds?.remove());

function built(result: BuildResult): Extract<BuildResult, { state: "Built" }> {
  if (result.state !== "Built") throw new Error(`the build failed: ${result.reason} ${result.message}`);
  return result;
}

async function failToParse(): Promise<void> {
  const [missing, mistaken] = await Promise.all([
    builds.begin("missing", { other: "" }).then(builds.ended),
    builds.begin("mistaken", { Dockerfile: `FROM ${BASE}\nCOPPY a b` }).then(builds.ended),
  ]);
  assert.match(JSON.stringify(missing), /BuildFailed.*Dockerfile.*no such file/);
  assert.match(JSON.stringify(mistaken), /BuildFailed.*unknown instruction: COPPY/);
}

async function lookAround(): Promise<void> {
  const script = [
    "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status",
    "cat /proc/self/uid_map",
    "mknod /tmp/device b 8 0 2> /dev/null && echo made a device",
    "mount -t tmpfs none /mnt 2> /dev/null && echo mounted",
    // Some of them are in the step's own user namespace, as the builder is.
    "others=0",
    "for other in /proc/[0-9]*; do [ $other != /proc/$$ ] || continue",
    "[ -e $other/stat ] && others=$((others + 1))",
    "cat $other/environ > /dev/null 2>&1 && echo read the environment of $other",
    "ls $other/root/ > /dev/null 2>&1 && echo read the files of $other",
    "for open in $other/fd/*; do readlink $open > /dev/null 2>&1 && echo read what $other has open; done",
    "done",
    "echo saw $others other processes",
    "exit 1",
  ].join("; ");
  const result = await builds.ended(await builds.begin("power", { Dockerfile: `FROM ${BASE}\nRUN ${script}` }));
  const said = JSON.stringify(result);
  assert.match(said, /Seccomp:\\t2/);
  assert.match(said, / 0 +1000 +1\\n/);
  assert.not.match(said, /\\n(made a device|mounted|read )/);
  // RootlessKit, its child and buildkitd at the least.
  assert.ok(Number(/\\nsaw (\d+) other/.exec(said)?.[1]) >= 3, said);
}

async function askForMore(): Promise<void> {
  const asked = await Promise.all(
    ["security=insecure", "network=host"].map(async (more) =>
      builds.ended(await builds.begin(more.replace("=", "-"), { Dockerfile: `FROM ${BASE}\nRUN --${more} id` })),
    ),
  );
  for (const result of asked) assert.match(JSON.stringify(result), /BuildFailed.*is not allowed/);
}

async function leadOut(): Promise<void> {
  const file = [`FROM ${BASE}`, `COPY secret /secret`].join("\n");
  const result = await builds.ended(
    await builds.begin("link", { Dockerfile: file, secret: { linkTo: "/etc/passwd" } }),
  );
  assert.is(result.state === "Failed" && result.reason, "BuildFailed");
  assert.match(result.state === "Failed" ? result.message : "", /"\/secret" does not exist/);
}

testAtOnce(test, [
  ["a build file that is not there, and one with a mistake: what is wrong", failToParse],
  ["what a step is: not root of the node, without a way to more", lookAround],
  ["asking for more than that is refused", askForMore],
  ["a link of the context leads nowhere outside of it", leadOut],
]);

test("a registry over HTTPS with a password and an authority of its own: pushed to and pulled from, by those who know it", async () => {
  const registry = await startPrivateRegistry(NAME, builds.cluster.hostAddress);
  try {
    const prefix = `${registry.address}/team`;
    const { metadata, ...policy } = renderBuildsPolicy({ ...builds.config, registry: prefix });
    await builds.client.create(networkPolicies, { ...policy, metadata: { ...metadata, name: "private-registry" } });
    const config = { namespace: builds.config.namespace, name: "tenancy-buildkitd" };
    const toml = (await builds.client.get(configMaps, config)).data?.["buildkitd.toml"];
    const more = `[registry."${registry.address}"]\n  ca = ["/config/ca.crt"]\n`;
    const data = { "buildkitd.toml": `${toml}${more}`, "ca.crt": registry.authority };
    await builds.client.patch(configMaps, config, { type: "merge", body: { data } });
    const login = [`--docker-server=${registry.address}`, `--docker-username=${registry.user}`];
    await builds.inBuilds(
      ...["create", "secret", "docker-registry", "tenancy-push", ...login, `--docker-password=${registry.password}`],
    );
    const files = {
      Dockerfile: `FROM ${BASE}\nCOPY file /file\nCMD ["sh", "-c", "cat /file; sleep 3600"]`,
      file: "kept\n",
    };
    const refused = await builds.ended(await builds.begin("private", files, { registry: { prefix } }));
    assert.is(refused.state === "Failed" && refused.reason, "RegistryRefused", JSON.stringify(refused));
    const known = { registry: { prefix, pushSecret: "tenancy-push" } };
    assert.is(built(await builds.ended(await builds.begin("private", files, known))).cached, 0);
    const again = built(await builds.ended(await builds.begin("private", files, known)));
    assert.is(again.cached, 1);
    const overrides = JSON.stringify({ spec: { imagePullSecrets: [{ name: "tenancy-push" }] } });
    const ref = `${prefix}/private@${again.digest}`;
    await builds.inBuilds("run", "stranger", `--image=${ref}`, "--restart=Never");
    const waiting = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    await waitUntil(async () => /ImagePull/.test(await builds.inBuilds("get", "pod", "stranger", "-o", waiting)), {
      ...{ what: "the pull without the password to fail", limitMs: 60_000, intervalMs: 200 },
    });
    await builds.inBuilds("run", "private", `--image=${ref}`, "--restart=Never", `--overrides=${overrides}`);
    await waitUntil(async () => (await builds.inBuilds("logs", "private").catch(() => "")) === "kept\n", {
      ...{ what: "the log of the image that was pulled", limitMs: 240_000, intervalMs: 200 },
    });
    await builds.inBuilds("delete", "pod", "private", "stranger", "--grace-period=0", "--force");
  } finally {
    await registry.stop();
  }
});

/** Pods that say who they are, and hosts beyond the node. */
async function places(): Promise<{ table: Destination[]; caller: string; end(): Promise<void> }> {
  const { cluster, kubectl } = builds;
  const base = await busyboxFiles(await findStaticBusybox(silent));
  const curl = await programFiles({ programs: ["/usr/bin/curl"], files: [], base });
  const caller = { name: "localhost/tenancy-caller:e2e", files: [...base, ...curl] };
  await importImages(NAME, [caller]);
  await pushImages(builds.registry, [caller]);
  const outside = await startWorld(NAME);
  await startClusterDns(cluster, worldRecords);
  const api = await apiForPods(cluster);
  const addresses: string[] = [];
  for (const [pod, says] of Object.entries({ tenant: "instance", bystander: "pod" })) {
    const script = `nc -ll -p 443 -e echo ${says} & exec nc -ll -p 8080 -e echo ${says}`;
    await kubectl("run", pod, `--image=${caller.name}`, "--", "sh", "-c", script);
    await kubectl("wait", `pod/${pod}`, "--for=condition=Ready", "--timeout=240s");
    addresses.push(await kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}"));
  }
  const [tenant = "", bystander = ""] = addresses;
  const table = destinations({
    ...{ otherTenant: tenant, otherTenantV6: "fe80::1", sameTenant: tenant, unselected: bystander },
    hostAddress: cluster.hostAddress,
    kubeletPort: slotOf(readClusterState(clusterFolder(NAME))?.slot as number).ports.kubelet,
    apiServerPort: api.port,
  }).filter(({ name }) => !name.includes("link-local"));
  return {
    ...{ table, caller: caller.name },
    async end() {
      await api.close();
      await outside.remove();
    },
  };
}

test("a step reaches DNS, HTTPS outside and the registry, and no pod, node, API server or metadata", async () => {
  const { policies } = builds.cluster;
  if (!policies.enforced)
    return console.log(`note: no packets sent: policies are not enforced here: ${policies.because}`);
  const { table, caller, end } = await places();
  try {
    const inPod = (script: string) => builds.kubectl("exec", "bystander", "--", "sh", "-c", script);
    const inStep = async (script: string) => {
      const file = [`FROM ${caller}`, "RUN <<EOF", script, "exit 1", "EOF"].join("\n");
      const begun = await builds.begin("packets", { Dockerfile: file });
      assert.is((await builds.ended(begun)).state, "Failed");
      const log = await builds.inBuilds("logs", begun.pod, "-c", "build");
      return [...log.matchAll(/^#\d+ [\d.]+ (.*)$/gm)].map(([, line]) => line).join("\n");
    };
    for (const [source, ask] of [
      ["no policy", inPod],
      ["build", inStep],
    ] as const)
      assert.equal(
        await answersFrom(source, { table, ask }),
        table.map(({ name, answers }) => `${name}: ${answers[source]}`),
      );
  } finally {
    await end();
  }
});

/** Asks for every place, and again for those that should have answered and have not: a busy machine may be late. */
async function answersFrom(
  source: Source,
  { table, ask }: { table: readonly Destination[]; ask: (script: string) => Promise<string> },
): Promise<string[]> {
  const found = new Map<Destination, string>();
  let left = table;
  for (let tries = 1; tries <= 4 && left.length > 0; tries += 1) {
    const answers = readAnswers(left, await ask(probeScript(left)));
    for (const [row, place] of left.entries()) found.set(place, answers[row] ?? "-");
    left = left.filter((place) => found.get(place) === "-" && place.answers[source] !== "-");
  }
  return table.map((place) => `${place.name}: ${found.get(place)}`);
}

test("containers on the node: no root, two capabilities, no token; a Job that is deleted leaves no process and no mount", async () => {
  const step = "sleep 3607";
  const slow = await builds.begin("slow", { Dockerfile: `FROM ${BASE}\nRUN ${step}` });
  const running = () => listProcesses().find(({ command }) => command.endsWith(step));
  await waitUntil(() => running(), { what: "the step", limitMs: 240_000, intervalMs: 200 });
  const inside = (script: string) => builds.inBuilds("exec", slow.pod, "-c", "build", "--", "sh", "-c", script);
  const seen = await inside(
    "cat /proc/1/status; ls /var/run/secrets 2>&1; touch /file 2>&1; touch /context/x 2>&1; true",
  );
  assert.match(seen, /^Uid:\t1000\t1000/m);
  assert.match(seen, /^CapBnd:\t00000000000000c0$/m);
  assert.match(seen, /^CapEff:\t0000000000000000$/m);
  assert.match(seen, /secrets: No such file/);
  assert.match(seen, /\/file: Read-only file system/);
  assert.match(seen, /\/context\/x: Read-only file system/);

  const family = familyOf(running()?.pid ?? 0);
  for (const name of ["buildkitd", "rootlesskit"])
    assert.ok(
      family.some((one) => one.name === name),
      name,
    );
  const containerd = findProcess(clusterFolder(NAME), "containerd");
  const mounts = () => readFileSync(`/proc/${containerd?.identity.pid}/mounts`, "utf8");
  const ids = await waitUntil(
    async () => {
      const { metadata, status } = await builds.podOf(slow);
      const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
      const started = containers.flatMap(({ containerID }) => containerID?.replace(/^.*\//, "") ?? []);
      return started.some((id) => mounts().includes(id)) && [metadata.uid ?? "", ...started];
    },
    { what: "the container's mounts", limitMs: 60_000 },
  );

  await builds.inBuilds("delete", "job", slow.job, "--cascade=foreground");
  const left = () =>
    listProcesses().filter(({ pid, command }) => family.some((was) => was.pid === pid && was.command === command));
  await waitUntil(() => left().length === 0 && ids.every((id) => !mounts().includes(id)), {
    ...{ what: "processes and mounts to go", limitMs: 60_000, intervalMs: 200 },
    explain: () => JSON.stringify([left(), ids.filter((id) => mounts().includes(id))]),
  });
});

/** All processes of the container that one of them is in. */
function familyOf(pid: number): ReturnType<typeof listProcesses> {
  const all = new Map(listProcesses().map((one) => [one.pid, one]));
  const shimOf = (at: number): number | undefined => {
    const found = all.get(at);
    if (found === undefined || found.name.startsWith("containerd-shim")) return found?.pid;
    return shimOf(found.parent);
  };
  const shim = shimOf(pid);
  return [...all.values()].filter((one) => one.pid !== shim && shim !== undefined && shimOf(one.pid) === shim);
}

test.run();
