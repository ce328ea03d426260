import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { listedTenants, seesService } from "./access.ts";
import { call, ifGone, send } from "./call.ts";
import { createFeed, type FeedMessage, type FeedReader, type FeedState } from "./feed.ts";
import { createLiveList, type Live, type RowKind } from "./live-list.ts";
import { isBefore, type ListPage, readPages } from "./read-pages.ts";
import { checkSession } from "./session.ts";

/** The lists that the page can hold, by name. */
export interface Kinds {
  /** The list has more fields than the messages. */
  claims: ApiTypes["Claim"] & Partial<Pick<ApiTypes["ListedClaim"], "name" | "createdAt">>;
  instances: ApiTypes["Instance"];
  workloads: ApiTypes["Workload"];
  pools: ApiTypes["Pool"];
  triggers: ApiTypes["Trigger"];
}

interface Kind<Row> extends RowKind<Row> {
  /** Path of the list, below `/api/v1`. */
  readonly path: string;
  /** Page size of lists that may have thousands of rows: one large read delays every other caller. */
  readonly pageSize?: number;
  /** The prefix of its message types. */
  readonly event: string;
}

const PAGE_SIZE = 1000;
const byName = ({ name }: { name: string }): string => name;

const kinds: { readonly [Name in keyof Kinds]: Kind<Kinds[Name]> } = {
  claims: {
    path: "/claims",
    ...{ pageSize: PAGE_SIZE, event: "claim." },
    keyOf: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
    rowOf: (shown: ApiTypes["Claim"], before) => (before === undefined ? shown : { ...constantOf(before), ...shown }),
  },
  instances: {
    path: "/instances",
    ...{ pageSize: PAGE_SIZE, event: "instance.", keyOf: byName },
  },
  workloads: {
    ...{ path: "/workloads", event: "workload.", keyOf: byName, isPartial: true },
    rowOf: ({ phase, reason }: ApiTypes["OpenWorkload"], row) =>
      row && { ...row, status: { ...withReason(row.status, reason), phase } },
  },
  pools: {
    ...{ path: "/pools", event: "pool.", keyOf: byName, isPartial: true },
    rowOf: ({ phase, ready, warming, desired, reason }: ApiTypes["OpenPool"], row) =>
      row && {
        ...row,
        status: { ...withReason(row.status, reason), phase, ready, warming, ...(desired !== undefined && { desired }) },
      },
  },
  triggers: {
    ...{ path: "/triggers", event: "trigger.", keyOf: byName, isPartial: true },
    rowOf: ({ phase }: ApiTypes["OpenTrigger"], row) =>
      row && { ...row, status: { ...row.status, ...(phase !== undefined && { phase }) } },
  },
};

/** The status with another reason; the old message is dropped, since it belongs to the old reason. */
function withReason<Status extends { reason?: string; message?: string }>(status: Status, reason: string | undefined) {
  if (reason === status.reason) return status;
  const { reason: _, message: __, ...rest } = status;
  return reason === undefined ? rest : { ...rest, reason };
}

/** The fields of a claim that never change. */
function constantOf({ name, createdAt }: Kinds["claims"]): Partial<Kinds["claims"]> {
  return { ...(name !== undefined && { name }), ...(createdAt !== undefined && { createdAt }) };
}

/** State of the connection; `live(kind).state` has the state of one kind. */
export const connection = signal<FeedState>("loading");
/** When the page last received anything from the edge. */
export const lastHeardAt = signal(Date.now());
/** Whether the edge's cache of the cluster was fresh at the last pong. */
export const isEdgeFresh = signal(true);
/** Milliseconds by which the edge's clock is ahead of this machine's. */
export const clockAheadMs = signal(0);
/** Why lists cannot be read now. */
export const listProblem = signal<Error | undefined>(undefined);

export const timers = {
  now: () => performance.now(),
  after(ms: number, act: () => void) {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

const feed = createFeed({
  open(since, { onOpen, onText, onClose }) {
    // The API refuses more to those who reach some tenants.
    const types = seesService() ? "claim,instance,workload,pool,trigger" : "claim,instance";
    const query = new URLSearchParams({ type: types });
    const [tenant, ...others] = listedTenants() ?? [];
    if (tenant !== undefined && others.length === 0) query.set("tenant", tenant);
    if (since !== undefined) query.set("since", since);
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?${query}`);
    let wasOpen = false;
    socket.onopen = () => {
      wasOpen = true;
      onOpen();
    };
    socket.onmessage = ({ data }) => onText(String(data));
    socket.onclose = () => {
      onClose();
      // A browser does not report why a socket was refused; the edge may ask for the key.
      if (!wasOpen) void checkSession();
    };
    return { send: (text) => socket.send(text), close: () => socket.close() };
  },
  nextFrame(act) {
    // A hidden tab gets no animation frames.
    const timer = setTimeout(once, 1000);
    const frame = requestAnimationFrame(once);
    function once(): void {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      lastHeardAt.value = Date.now();
      act();
    }
  },
  isVisible: () => !document.hidden,
  clock: timers,
  onState: (state) => {
    connection.value = state;
  },
  onPong({ time, fresh }) {
    lastHeardAt.value = Date.now();
    isEdgeFresh.value = fresh;
    clockAheadMs.value = Date.parse(time) - Date.now();
  },
  onFailure: (error) => {
    listProblem.value = error as Error;
  },
});

/** Retries pending work now, for example after a login. */
export function retryFeed(): void {
  feed.retry();
}

addEventListener("online", retryFeed);
document.addEventListener("visibilitychange", () => {
  // A hidden tab may have lost its connection long ago.
  if (!document.hidden) retryFeed();
});

const started = new Map<keyof Kinds, unknown>();

/** The live list of a kind: started by its first reader, and open for as long as the page is. */
export function live<Name extends keyof Kinds>(name: Name): Live<Kinds[Name]> {
  const known = started.get(name) as Live<Kinds[Name]> | undefined;
  if (known !== undefined) return known;
  const made = start<Kinds[Name]>(name, kinds[name]);
  started.set(name, made.live);
  feed.add(made.reader);
  return made.live;
}

/** Reads a list of all, or those of the tenants that the caller reaches. Its version is the oldest of the pages'. */
async function readLists<Row>(
  read: (tenant: string | undefined, after: string | undefined) => Promise<ListPage<Row>>,
): Promise<{ list: Row[]; version: string | undefined }> {
  const all: { list: Row[]; version: string | undefined } = { list: [], version: undefined };
  for (const tenant of listedTenants() ?? [undefined]) {
    const { list, version } = await readPages((after) => read(tenant, after));
    all.list.push(...list);
    if (all.version === undefined || isBefore(version, all.version)) all.version = version;
  }
  return all;
}

/** Whether a list was read: tenants that are opened later are not in it. */
export function hasLists(): boolean {
  return started.size > 0;
}

function start<Row>(name: string, kind: Kind<Row>): { live: Live<Row>; reader: FeedReader<Row[]> } {
  const { path, pageSize, event, keyOf } = kind;
  const version = signal(0);
  const state = signal<FeedState>("loading");
  const list = createLiveList(kind, {
    readOne: (key) => call<Row>("GET", `${path}/${encodeURIComponent(key)}`).catch(ifGone),
    onRead: () => {
      listProblem.value = undefined;
      version.value += 1;
    },
    onFailure: (error) => {
      listProblem.value = error as Error;
    },
    clock: timers,
  });
  return {
    reader: {
      kind: name,
      takes: (type) => type.startsWith(event),
      async list(signal) {
        return readLists(async (tenant, after) => {
          const query = new URLSearchParams();
          if (tenant !== undefined) query.set("tenant", tenant);
          if (pageSize !== undefined) query.set("limit", String(pageSize));
          if (after !== undefined) query.set("after", after);
          const response = await send("GET", query.size === 0 ? path : `${path}?${query}`, { signal });
          return {
            rows: (await response.json()) as Row[],
            version: response.headers.get("x-tenancy-version") ?? undefined,
            next: response.headers.get("x-tenancy-next") ?? undefined,
          };
        });
      },
      reset(all) {
        list.reset(all);
        listProblem.value = undefined;
        version.value += 1;
      },
      apply(batch) {
        const tenants = listedTenants();
        const isListed = ({ object }: FeedMessage): boolean =>
          tenants === undefined || tenants.includes((object as { tenantId?: string }).tenantId ?? "");
        list.apply(batch.filter(isListed));
        version.value += 1;
      },
      onState: (next) => {
        state.value = next;
      },
    },
    live: { version, rows: list.rows, state, keyOf, follow: list.follow },
  };
}
