// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../../eventually.ts";
import { type EdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { heldBack } from "../held-back.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { askAt, type NamedPods, POD_NETWORK, startNamedPods } from "./named-pods.ts";
import { startDoor } from "./start-door.ts";

const test = suite("uploads at the front door and releases: what was acknowledged is in the saved files");

const KEY = "uploads-key";
const SAVE_MS = 1000;
let tenancy: Tenancy;
let named: NamedPods;
let door: EdgeProcess;
/** By pods' uids: what their programs have written, and what of it a save found that began then. */
const files = new Map<string, Set<string>>();
const saved = new Map<string, Set<string>>();
/** Lets the programs of these tenants go on with what they were sent. */
const held = new Map<string, () => void>();
const ends: (() => Promise<unknown>)[] = [];

test.before(async () => {
  named = await startNamedPods(() => tenancy.client);
  named.onRequest = (tenant, { url = "/" }, response, uid) => {
    const write = (): void => {
      files.set(uid, (files.get(uid) ?? new Set()).add(url));
      response.end(uid);
    };
    const ms = Number(/-for-(\d+)$/.exec(url)?.[1] ?? 0);
    if (url.startsWith("/held")) held.set(tenant, write);
    else setTimeout(write, ms);
  };
  tenancy = await startTenancy("uploads", { nodes: { podNetwork: POD_NETWORK } });
  tenancy.pods.subscribe(named.onPod);
  const { snapshots } = await recordSaves(tenancy);
  tenancy.startOperator({
    // It sees three seconds late what edges say on pods.
    wrap: (client) => heldBack(client, "pods"),
    snapshots: {
      ...snapshots,
      async save(key, pod, options) {
        const { uid = "" } = pod.metadata;
        saved.set(uid, new Set(files.get(uid)));
        await new Promise((resolve) => setTimeout(resolve, SAVE_MS));
        return snapshots.save(key, pod, options);
      },
    },
  });
  await tenancy.createWorkload("app", {
    network: { ports: [named.port], expose: "key" },
    filesystem: { overlayDirs: ["/data"] },
  });
  door = await startReadyEdge("bun", {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_API_KEY: KEY,
    TENANCY_EDGE_ROLES: "api,proxy",
  });
});

test.after(async () => {
  door?.child.kill("SIGCONT");
  door?.child.kill("SIGTERM");
  await door?.exited;
  for (const end of ends.reverse()) await end();
  await tenancy?.stop();
  await named?.stop();
});

/** A front door one of whose watches is late. */
async function startLateDoor(plural: "pods" | "tenancyclaims"): Promise<{ proxyUrl: string | undefined }> {
  const { kubeconfigPath } = tenancy.cluster;
  const late = await startDoor({ kubeconfigPath, apiKey: KEY, wrap: (client) => heldBack(client, plural) });
  ends.push(late.stop);
  return late.door;
}

const ask = ({ proxyUrl }: { proxyUrl: string | undefined }, tenant: string, path = "/", method = "PUT") =>
  askAt(proxyUrl, `app--${tenant}.localhost`, { method, path, headers: { "x-tenancy-key": KEY } });

const release = (tenant: string) => tenancy.release(`claim-${tenant}-app`).catch(() => undefined);

test("an upload that is in flight at a release is saved, also where the operator's watch of pods is late", async () => {
  // With its answer the word of the edge is on the pod, where the operator does not see it yet.
  assert.is((await ask(door, "ann", "/first")).status, 200);
  const upload = ask(door, "ann", "/held");
  await eventually(() => held.has("ann"));
  const released = release("ann");
  await tenancy.untilClaim("claim-ann-app", { phase: "Releasing" });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  held.get("ann")?.();
  const { status, text } = await upload;
  assert.is(status, 200);
  await released;
  assert.ok(saved.get(text)?.has("/held"), "the upload was acknowledged and not saved");
});

test("an edge that was suspended past the end of the wait acknowledges nothing", async () => {
  assert.is((await ask(door, "ben", "/", "GET")).status, 200);
  const upload = ask(door, "ben", "/held");
  await eventually(() => held.has("ben"));
  // Its word stands on the pod by then.
  assert.is((await ask(door, "ben", "/first")).status, 200);
  door.child.kill("SIGSTOP");
  const released = release("ben");
  await eventually(() => saved.size > 1);
  held.get("ben")?.();
  door.child.kill("SIGCONT");
  assert.is.not((await upload).status, 200);
  await released;
});

test("storms of uploads and releases at edges whose watches are late", async () => {
  const doors = [door, await startLateDoor("tenancyclaims"), await startLateDoor("pods")];
  const RELEASES = 2;
  const acknowledged: { path: string; uid: string }[] = [];
  let releasing = 0;
  const statuses = new Map<number, number>();
  const tenants = ["cem", "dee", "eli"];
  let uploads = 0;
  const upload = async (tenant: string, at: number): Promise<void> => {
    while (releasing > 0) {
      uploads += 1;
      const path = `/${uploads}-for-${(uploads * 37) % 1500}`;
      const { status, text } = await ask(doors[at % doors.length] ?? door, tenant, path).catch(() => ({
        status: 0,
        text: "",
      }));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 200) acknowledged.push({ path, uid: text });
    }
  };
  const releases = async (tenant: string): Promise<void> => {
    releasing += 1;
    for (let round = 0; round < RELEASES || acknowledged.length <= 20; round += 1) {
      await tenancy.untilClaim(`claim-${tenant}-app`, { phase: "Active" });
      await new Promise((resolve) => setTimeout(resolve, 1700));
      await release(tenant);
    }
    releasing -= 1;
  };
  await Promise.all(
    tenants.flatMap((tenant) => [releases(tenant), ...[0, 1, 2, 3, 4, 5].map((at) => upload(tenant, at))]),
  );
  for (const tenant of tenants) await release(tenant);
  console.log(`note: ${JSON.stringify([...statuses])}, ${saved.size} saves, ${acknowledged.length} acknowledged`);
  const lost = acknowledged.filter(({ path, uid }) => !saved.get(uid)?.has(path));
  assert.equal(lost, []);
  assert.ok(acknowledged.length > 20);
});

test.run();
