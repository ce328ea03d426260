import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Registry } from "prom-client";
import * as assert from "uvu/assert";
import { ifFound } from "../../../crds/client/api-error.ts";
import { leases, pods } from "../../../crds/client/built-in-resources.ts";
import { openSink } from "../../../crds/sink/event-sink.ts";
import type { UsageRecord } from "../../../crds/usage/usage-record.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { operatorConfig, type SnapshotConfig } from "../../../operator/config.ts";
import { createRandom } from "../../random.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { call } from "../../unit/snapshots/store-contract.ts";
import { type DyingRecorder, startDyingOperator } from "../dying-operator.ts";
import { NAMESPACE, type Tenancy } from "../tenancy.ts";
import type { FaultySink } from "./faulty-sink.ts";
import { countOutside, type SeenSession } from "./outside-count.ts";

const TENANTS = 24;
const HELPER = { image: "simulated/snapshots:1", program: undefined, ownPod: undefined };
/** Times of objects have whole seconds, and a leader's clock follows the API server's to within a second. */
const RESOLUTION_MS = 2500;

interface Churn {
  /** How many times a claim is made. */
  readonly claims: number;
  /** An operator is killed after at most so many writes. */
  readonly mostWrites: number;
  readonly told: DyingRecorder;
  readonly snapshots: SnapshotConfig;
  readonly usage: UsageStore;
  readonly sink: FaultySink;
}

/**
 * Claims and releases on a pool, and deletes some pods under their claims, while one operator after the other is killed
 * right after a write. Then every session that the API server has shown must be recorded once, and no other, and the sink
 * must have all of it.
 */
export async function churnAndCompare(
  tenancy: Tenancy,
  { claims, mostWrites, told, snapshots, usage, sink }: Churn,
): Promise<void> {
  const random = createRandom(claims);
  const outside = await countOutside({ kubeconfigPath: tenancy.cluster.kubeconfigPath, namespace: NAMESPACE });
  const done = new AbortController();
  const killed = killOperators(tenancy, { random, mostWrites, told, signal: done.signal });
  let left = claims;

  async function useAs(tenantId: string): Promise<void> {
    while (left-- > 0) {
      const { metadata } = await tenancy.createClaim(tenantId, "hello");
      const active = await tenancy.untilClaim(metadata.name, { phase: "Active" });
      if (random(20) === 0) {
        const name = active.status?.instanceId ?? "";
        await tenancy.client.delete(pods, { namespace: NAMESPACE, name });
        await tenancy.untilClaim(metadata.name, (claim) => isInOther(claim?.status, active.status?.instanceUid));
      }
      await tenancy.release(metadata.name);
    }
  }

  try {
    await Promise.race([Promise.all(Array.from({ length: TENANTS }, (_, index) => useAs(`tenant-${index}`))), killed]);
  } finally {
    left = 0;
    done.abort();
  }
  const kills = await killed;
  const config = operatorConfig({ ...told });
  const opened = config.sink && (await openSink(config.sink, { registry: new Registry(), log: silentLog }));
  const last = tenancy.startOperator({
    ...{ usage, sink: opened },
    config: { snapshots: { ...snapshots, helper: HELPER } },
  });
  try {
    await tenancy.until("no claim", () => [...tenancy.claims.store.values()].length === 0);
    await tenancy.until("the last event", () => [...outside.sessions.values()].every(({ end }) => end !== undefined));
    const recorded = await recordIdsIn(usage);
    await tenancy.until("the sink has what was recorded", () => {
      const taken = sink.taken().get("dev.tenancy.usage");
      return [...recorded].every((id) => taken?.has(id) === true);
    });
    await tenancy.until("all files are sent", () => readdirSync(join(sink.folder, "operator")).length === 0);
  } finally {
    outside.stop();
    await last.stop();
    await opened?.close();
  }
  console.log(`note: ${outside.sessions.size} sessions, ${kills} operators killed`);
  assert.ok(outside.sessions.size >= claims && kills > 0, `${outside.sessions.size} sessions, ${kills} kills`);
  compare(outside.sessions, await recordsIn(usage));
  compareEvents(outside.sessions, { taken: sink.taken(), recorded: await recordIdsIn(usage) });
}

function isInOther(status: { phase?: string; instanceUid?: string } | undefined, uid: string | undefined): boolean {
  return status?.phase === "Active" && status.instanceUid !== undefined && status.instanceUid !== uid;
}

async function killOperators(
  { cluster, client }: Tenancy,
  {
    random,
    mostWrites,
    told,
    signal,
  }: { random: (below: number) => number; mostWrites: number; told: DyingRecorder; signal: AbortSignal },
): Promise<number> {
  let kills = 0;
  let killPresent = (): void => undefined;
  signal.addEventListener("abort", () => killPresent(), { once: true });
  while (!signal.aborted) {
    const { exited, kill } = startDyingOperator(cluster.kubeconfigPath, 1 + random(mostWrites), told);
    killPresent = kill;
    assert.is(await exited, "SIGKILL");
    kills += 1;
    // That a successor waits for the lease of the dead is shown elsewhere (leader.test.ts).
    const released = { type: "merge", body: { spec: { holderIdentity: "" } } } as const;
    await ifFound(client.patch(leases, { namespace: NAMESPACE, name: "tenancy-operator" }, released));
  }
  return kills;
}

interface Recorded {
  readonly tenantId: string;
  /** Distinct records with an end. */
  ends: number;
  from: number;
  to: number;
  ms: number;
}

async function recordsIn(usage: UsageStore): Promise<Map<string, Recorded>> {
  const byId = new Map<string, UsageRecord>();
  for await (const lines of usage.read(recent(), call)) {
    for (const line of lines) {
      const record: UsageRecord = JSON.parse(line);
      const known = byId.get(record.id);
      if (known === undefined || (known.end === undefined && record.end !== undefined) || record.to < known.to)
        byId.set(record.id, record);
    }
  }
  const sessions = new Map<string, Recorded>();
  for (const { id, tenantId, end, ...record } of byId.values()) {
    const [session = ""] = id.split("/");
    const [from, to] = [Date.parse(record.from), Date.parse(record.to)];
    const sum = sessions.get(session) ?? { tenantId, ends: 0, from, to, ms: 0 };
    sessions.set(session, {
      ...{ tenantId, ends: sum.ends + (end === undefined ? 0 : 1), ms: sum.ms + to - from },
      ...{ from: Math.min(sum.from, from), to: Math.max(sum.to, to) },
    });
  }
  return sessions;
}

/** By nothing but ids: those of the store, and what the API server has shown. */
function compareEvents(
  seen: ReadonlyMap<string, SeenSession>,
  { taken, recorded }: { taken: ReturnType<FaultySink["taken"]>; recorded: ReadonlySet<string> },
): void {
  const claims = [...seen].map(([id, { from }]) => ({ uid: id.split(".")[0], from }));
  const expected = {
    "dev.tenancy.usage": recorded,
    "dev.tenancy.claim.active": new Set(claims.map(({ uid, from }) => `${uid}/active/${from}`)),
    "dev.tenancy.claim.released": new Set(claims.map(({ uid }) => `${uid}/released`)),
  };
  for (const [type, ids] of Object.entries(expected)) {
    const got = taken.get(type) ?? new Set();
    assert.equal([...ids].filter((id) => !got.has(id)).slice(0, 10), [], `${type} that the sink lacks`);
    assert.equal([...got].filter((id) => !ids.has(id)).slice(0, 10), [], `${type} that never was`);
  }
}

async function recordIdsIn(usage: UsageStore): Promise<Set<string>> {
  const ids = new Set<string>();
  for await (const lines of usage.read(recent(), call)) for (const line of lines) ids.add(JSON.parse(line).id);
  return ids;
}

function recent(): { from: string; to: string } {
  const hour = (ms: number): string => new Date(ms).toISOString().slice(0, 13);
  return { from: hour(Date.now() - 24 * 3_600_000), to: hour(Date.now() + 2 * 3_600_000) };
}

function compare(seen: ReadonlyMap<string, SeenSession>, recorded: ReadonlyMap<string, Recorded>): void {
  const problems: string[] = [];
  for (const [id, { tenantId, from, end }] of seen) {
    const record = recorded.get(id);
    if (record === undefined) problems.push(`${id} is missing`);
    else if (record.ends !== 1) problems.push(`${id} has ${record.ends} ends`);
    else if (record.tenantId !== tenantId) problems.push(`${id} is of ${record.tenantId}, not ${tenantId}`);
    else if (record.from !== Date.parse(from)) problems.push(`${id} begins ${record.from}, not at ${from}`);
    else if (record.ms !== record.to - record.from) problems.push(`${id} has gaps`);
    else if (end?.deletedAt !== undefined) {
      const offMs = record.to - Math.max(Date.parse(end.deletedAt), record.from);
      if (Math.abs(offMs) > RESOLUTION_MS) problems.push(`${id} ends ${offMs} ms after the deletion`);
    }
  }
  for (const id of recorded.keys()) if (!seen.has(id)) problems.push(`${id} never was`);
  assert.equal(problems.slice(0, 20), [], `${problems.length} of ${seen.size} sessions differ`);
}
