import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { listedTenants } from "../api/access.ts";
import { send } from "../api/call.ts";
import type { FeedState } from "../api/feed.ts";
import type { Kinds } from "../api/kinds.ts";
import type { Live, RowSink } from "../api/live-list.ts";

type Snapshot = ApiTypes["Snapshot"];

/** The saved files of a tenant in a workload: the newest version, and the size of all versions. */
export interface SnapshotRow extends Snapshot {
  readonly versions: number;
  /** Bytes of all versions: of this row, of the tenant, and of all tenants in the workload. */
  readonly takes: { readonly own: number; readonly tenant: number; readonly workload: number };
}

/** @param all with older versions, each after its newest */
export function snapshotRows(all: readonly Snapshot[]): SnapshotRow[] {
  const own = new Map<string, Snapshot[]>();
  const takes = { tenant: new Map<string, number>(), workload: new Map<string, number>() };
  const add = (to: Map<string, number>, name: string, bytes: number) => to.set(name, (to.get(name) ?? 0) + bytes);
  for (const version of all) {
    const versions = own.get(snapshotKey(version));
    if (versions === undefined) own.set(snapshotKey(version), [version]);
    else versions.push(version);
    add(takes.tenant, version.tenantId, version.sizeBytes);
    add(takes.workload, version.workloadRef, version.sizeBytes);
  }
  return [...own.values()].map((versions) => {
    const first = versions[0] as Snapshot;
    return {
      ...first,
      versions: versions.length,
      takes: {
        own: versions.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
        tenant: takes.tenant.get(first.tenantId) ?? 0,
        workload: takes.workload.get(first.workloadRef) ?? 0,
      },
    };
  });
}

/** The snapshots as last read: the store does not announce changes. */
export interface SnapshotListing {
  readonly live: Live<SnapshotRow>;
  /** When it was last read, and why. */
  readonly read: { readonly at: number; readonly because: string } | undefined;
  /** Whether the page holds only a part: the first snapshots by tenant. */
  readonly isPart: boolean;
  readonly isReading: boolean;
  readonly error: Error | undefined;
  /** Reads it again, after the current read. */
  again(because: string): void;
}

const rows = new Map<string, SnapshotRow>();
const sinks = new Set<RowSink<SnapshotRow>>();
const version = signal(0);
const state = signal<FeedState>("loading");
const read = signal<SnapshotListing["read"]>(undefined);
const reading = signal<string | undefined>(undefined);
const part = signal(false);
const error = signal<Error | undefined>(undefined);
let next: string | undefined;

/** Kept for the whole page, so that going back shows the same list. */
export const snapshotListing: SnapshotListing = {
  live: {
    ...{ version, rows, state, keyOf: snapshotKey },
    follow(sink) {
      sinks.add(sink);
      sink.reset(rows.values());
      return () => sinks.delete(sink);
    },
  },
  get read() {
    return read.value;
  },
  get isPart() {
    return part.value;
  },
  get isReading() {
    return reading.value !== undefined;
  },
  get error() {
    return error.value;
  },
  again(because) {
    if (reading.peek() === undefined) void readAll(because);
    else next = because;
  },
};

/** Each read lists everything in the store, so reads after releases are limited to this rate. */
const PAUSE_MS = 10_000;
const PAGE_SNAPSHOTS = 1000;
const MOST_PAGES = 10;

/** The first snapshots with their older versions, as many as the page holds: of all tenants, or of the caller's. */
async function readFirst(): Promise<{ all: Snapshot[]; isPart: boolean }> {
  const all: Snapshot[] = [];
  let isPart = false;
  for (const tenant of listedTenants() ?? [undefined]) {
    const found = await readFirstOf(tenant);
    all.push(...found.all);
    isPart ||= found.isPart;
  }
  return { all, isPart };
}

async function readFirstOf(tenant: string | undefined): Promise<{ all: Snapshot[]; isPart: boolean }> {
  const all: Snapshot[] = [];
  let after: string | null = null;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const query = new URLSearchParams({ versions: "true", limit: String(PAGE_SNAPSHOTS) });
    if (tenant !== undefined) query.set("tenant", tenant);
    if (after !== null) query.set("after", after);
    const response: Response = await send("GET", `/snapshots?${query}`);
    all.push(...((await response.json()) as Snapshot[]));
    after = response.headers.get("x-tenancy-next");
    if (after === null) break;
  }
  return { all, isPart: after !== null };
}

/**
 * Reads again after releases, since a release saves the tenant's files and deletes the claim. Returns a function that
 * stops.
 */
export function followReleases(claims: Live<Kinds["claims"]>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = claims.follow({
    put: () => undefined,
    reset: () => undefined,
    remove(key) {
      const [tenant = "", workload = ""] = key.split("/");
      const sinceMs = Date.now() - (read.peek()?.at ?? 0);
      timer ??= setTimeout(
        () => {
          timer = undefined;
          snapshotListing.again(`${tenant}'s claim on ${workload} ended`);
        },
        Math.max(0, PAUSE_MS - sinceMs),
      );
    },
  });
  return () => {
    end();
    clearTimeout(timer);
  };
}

async function readAll(because: string): Promise<void> {
  reading.value = because;
  try {
    const found = await readFirst();
    const all = snapshotRows(found.all);
    part.value = found.isPart;
    rows.clear();
    for (const row of all) rows.set(snapshotKey(row), row);
    for (const sink of sinks) sink.reset(all);
    error.value = undefined;
    read.value = { at: Date.now(), because };
    state.value = "live";
    version.value += 1;
  } catch (cause) {
    error.value = cause as Error;
  } finally {
    reading.value = undefined;
  }
  const also = next;
  next = undefined;
  if (also !== undefined) await readAll(also);
}

function snapshotKey({ tenantId, workloadRef }: Snapshot): string {
  return `${tenantId}/${workloadRef}`;
}
