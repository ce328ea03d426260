import { randomBytes } from "node:crypto";
import * as v from "valibot";
import { ArchiveError } from "../archive/archive-error.ts";
import { NetworkError } from "../client/api-error.ts";
import { asOrdinary, checkCheckpoint } from "./kept-versions.ts";
import { checkSnapshotKey, type SnapshotKey } from "./snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "./snapshot-metadata.ts";
import {
  type ByteRange,
  type CommitCall,
  type Onto,
  type SnapshotStore,
  type StoreCall,
  StoreConflict,
  StoreError,
} from "./snapshot-store.ts";
import type { StoreConnection } from "./store-connection.ts";
import { compareKeys, type PageFilter, type StorePage } from "./store-pages.ts";
import {
  committedSchema,
  composedSchema,
  deletedSchema,
  entrySchema,
  keptSchema,
  MARKED,
  nameOutcomeSchema,
  nameSchema,
  partHeadSchema,
  receivedSchema,
  spaceSchema,
  usageSchema,
} from "./store-protocol.ts";

const GIVE_UP_LIMIT_MS = 5000;
const EARLIER = "the snapshots server is of an earlier version, which reads whole archives only: it is replaced soon";
const NO_CHECKPOINTS =
  "the snapshots server is of an earlier version, without checkpoints or names of them: it is replaced soon";
/** The end of an earlier server's message. */
export const NO_SUCH_CALL = "there is no such call";

export interface StoreClientOptions {
  readonly connection: StoreConnection;
  /** Whether the volume ever had its mark. @default it did not */
  readonly wasMarked?: ((signal: AbortSignal) => Promise<boolean>) | undefined;
}

/** The archives of a snapshots server. */
export function createStoreClient(options: StoreClientOptions): SnapshotStore {
  const { connection, wasMarked = async () => false } = options;
  const { ask, askLines, send, openBytes, repeat, limited } = connection;

  async function commit(
    key: SnapshotKey,
    given: { id: string; metadata: SnapshotMetadata; signal: AbortSignal },
    { replaces, keep, most }: CommitCall,
  ) {
    const { id, metadata, signal } = given;
    const body = Buffer.from(JSON.stringify({ id, replaces, keep, most, metadata }));
    const path = pathOf(metadata.kind === "checkpoint" ? "checkpoints" : "keys", key);
    // The server recognizes a commit that it has already done by the id.
    return await repeat(signal, () => ask(committedSchema, { method: "POST", path, body, signal }));
  }

  /** @throws ArchiveError if there is no table of what was sent */
  async function compose(
    { base, keeps, table: tableOf }: Onto,
    { path, signal }: { path: string; signal: AbortSignal },
  ) {
    const table = tableOf();
    if (table === undefined) throw new ArchiveError("TooLarge", "its changes have no table");
    const body = Buffer.from(JSON.stringify({ base, keeps: Buffer.from(keeps).toString("base64"), table }));
    // The server recognizes an upload that it has already composed by the id.
    return await repeat(signal, () => ask(composedSchema, { method: "POST", path, body, signal }));
  }

  function askPage<T extends SnapshotKey>(
    kind: "list" | "names",
    {
      tenantId,
      workloadRef,
      after,
      limit,
      versions = false,
      uses = false,
      read,
    }: PageFilter & {
      versions?: boolean;
      uses?: boolean;
      read: (line: unknown) => T;
    },
    call: StoreCall,
  ): Promise<StorePage<T>> {
    const query = new URLSearchParams({ limit: String(limit) });
    if (versions) query.set("versions", "true");
    if (uses) query.set("uses", "true");
    if (tenantId !== undefined) query.set("tenant", tenantId);
    if (workloadRef !== undefined) query.set("workload", workloadRef);
    if (after !== undefined) query.set("after", `${after.tenantId}/${after.workloadRef}`);
    const isWanted = (item: T): boolean =>
      (tenantId === undefined || item.tenantId === tenantId) &&
      (workloadRef === undefined || item.workloadRef === workloadRef) &&
      (after === undefined || compareKeys(item, after) > 0);
    return limited(call, (signal) =>
      repeat(signal, async () => {
        const { lines, next } = await askLines({ method: "GET", path: `/v1/${kind}?${query}`, signal });
        // An earlier version of the server returns all entries at once, unsorted.
        return { items: lines.map(read).filter(isWanted).sort(compareKeys), next };
      }),
    );
  }

  const list = (filter: PageFilter & { versions: boolean; uses?: boolean }, call: StoreCall) =>
    askPage(
      "list",
      {
        ...filter,
        read(line) {
          const { metadata, ...listed } = v.parse(entrySchema, line);
          return { ...listed, metadata };
        },
      },
      call,
    );

  const marked = async (signal: AbortSignal) => ({ [MARKED]: String(await wasMarked(signal)) });

  return {
    composes: true,

    look: (key, call) =>
      limited(call, (signal) =>
        repeat(signal, async () => {
          const { newest, ...kept } = await ask(keptSchema, { method: "GET", path: pathOf("keys", key), signal });
          return { ...kept, newest };
        }),
      ),

    async open(key, sha256, { range, ...call }) {
      const query = range === undefined ? "" : `?from=${range.from}&to=${range.to}`;
      const opened = await openBytes(`${pathOf("archives", key)}/${sha256}${query}`, {
        ...call,
        readHead(line) {
          const metadata = parseSnapshotMetadata(line);
          if (metadata === undefined || range === undefined) return metadata && { metadata, expected: metadata };
          if (!isPart(line, range)) throw new StoreError(EARLIER, { isTransient: true });
          return { metadata, expected: { sizeBytes: range.to - range.from, sha256: undefined } };
        },
      });
      return opened && { metadata: opened.head.metadata, content: opened.content, close: opened.close };
    },

    put: (key, archive, call) =>
      limited(call, async (signal) => {
        checkSnapshotKey(key);
        const id = randomBytes(16).toString("hex");
        const path = `${pathOf("uploads", key)}/${id}`;
        const headers = await marked(signal);
        const { tenantId, workloadRef } = key;
        let metadata: SnapshotMetadata;
        try {
          const sent = await send(archive, { path, headers, signal });
          const stored = call.onto === undefined ? sent : await compose(call.onto, { path, signal });
          const { sha256, sizeBytes } = stored;
          metadata = { sha256, sizeBytes, tenantId, workloadRef, ...call.describe(stored) };
          checkCheckpoint(metadata);
        } catch (error) {
          // If the connection has ended, the server detects it itself.
          if (!signal.aborted && !(error instanceof NetworkError)) await giveUp(path);
          throw error;
        }
        try {
          return await commit(key, { id, metadata, signal }, call);
        } catch (error) {
          if (!isNoSuchCall(error)) throw error;
          await giveUp(path);
          throw new StoreError(NO_CHECKPOINTS, { isTransient: true, cause: error });
        }
      }),

    checkRoom: (key, { sizeBytes, keep, most, session, ...call }) =>
      limited(call, async (signal) => {
        const body = Buffer.from(JSON.stringify({ sizeBytes, keep, most, session }));
        await repeat(signal, () => ask(v.object({}), { method: "POST", path: pathOf("room", key), body, signal }));
      }),

    adopt: (key, from, call) =>
      limited(call, async (signal) => {
        checkSnapshotKey(key);
        checkSnapshotKey(from);
        const id = randomBytes(16).toString("hex");
        const path = `${pathOf("uploads", key)}/${id}?from=${from.tenantId}/${from.workloadRef}/${from.sha256}`;
        const headers = await marked(signal);
        const { received } = await repeat(signal, () => ask(receivedSchema, { method: "PUT", path, headers, signal }));
        if (received?.metadata === undefined) return undefined;
        const { tenantId, workloadRef } = key;
        // The pod that saved this archive has not saved one for this key.
        const { podUid: _, lineage: __, copied: ___, names: ____, ...saved } = asOrdinary(received.metadata);
        const { createdAt, sandbox = saved.sandbox } = call;
        const metadata = { ...saved, tenantId, workloadRef, createdAt, ...(sandbox !== undefined && { sandbox }) };
        return await commit(key, { id, metadata, signal }, call);
      }),

    dropCheckpoint: (key, call) =>
      limited(call, async (signal) => {
        const path = `${pathOf("checkpoints", key)}?${new URLSearchParams({ session: call.session })}`;
        return await askDeletion(path, signal);
      }),

    setName: (key, { sha256, name }, call) =>
      limited(call, async (signal) => {
        const path = `${pathOf("version-names", key)}/${encodeURIComponent(name)}?sha256=${sha256}`;
        // The server gives the same answer to a repetition.
        const answer = await repeat(signal, () => ifKnown(ask(nameOutcomeSchema, { method: "PUT", path, signal })));
        return answer.outcome;
      }),

    dropName: (key, name, call) =>
      limited(call, (signal) => askDeletion(`${pathOf("version-names", key)}/${encodeURIComponent(name)}`, signal)),

    delete: (key, call) =>
      limited(call, async (signal) => {
        checkSnapshotKey(key);
        const query = new URLSearchParams();
        if (call.replaces !== undefined) query.set("replaces", call.replaces);
        if (call.unusedForMs !== undefined) query.set("unused-for-ms", String(call.unusedForMs));
        const path = `${pathOf("keys", key)}?${query}`;
        // True after a try whose response was lost. The archive may have been used or replaced since.
        let mayBeDone = false;
        return await repeat(signal, async () => {
          try {
            const { deleted } = await ask(deletedSchema, { method: "DELETE", path, signal });
            return deleted || (mayBeDone && (await isNone(key, signal)));
          } catch (error) {
            if (mayBeDone && error instanceof StoreConflict && (await isNone(key, signal))) return true;
            if (error instanceof NetworkError && error.requestWasSent) mayBeDone = true;
            throw error;
          }
        });
      }),

    list,

    uses: async (filter, call) => {
      const { items, next } = await list({ ...filter, versions: false, uses: true }, call);
      return { items: items.map(({ tenantId, workloadRef, usedAt }) => ({ tenantId, workloadRef, usedAt })), next };
    },

    names: (filter, call) => askPage("names", { ...filter, read: (line) => v.parse(nameSchema, line) }, call),

    touch: (keys, call) =>
      limited(call, async (signal) => {
        for (const key of keys) checkSnapshotKey(key);
        const body = Buffer.from(JSON.stringify(keys.map(({ tenantId, workloadRef }) => ({ tenantId, workloadRef }))));
        await repeat(signal, () => ask(v.object({}), { method: "POST", path: "/v1/touch", body, signal }));
      }),

    space: (call) =>
      limited(call, (signal) => repeat(signal, () => ask(spaceSchema, { method: "GET", path: "/v1/space", signal }))),

    usage: (call) =>
      limited(call, (signal) => repeat(signal, () => ask(usageSchema, { method: "GET", path: "/v1/usage", signal }))),

    tidy: (call) =>
      limited(call, async (signal) => {
        await repeat(signal, () => ask(v.object({}), { method: "POST", path: "/v1/tidy", signal }));
      }),

    close: () => undefined,
  };

  /** @throws StoreError if the server is of an earlier version, without this call */
  async function ifKnown<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      throw isNoSuchCall(error) ? new StoreError(NO_CHECKPOINTS, { isTransient: true, cause: error }) : error;
    }
  }

  /** @returns whether there was something to delete */
  async function askDeletion(path: string, signal: AbortSignal): Promise<boolean> {
    // True after a try whose response was lost.
    let mayBeDone = false;
    return await repeat(signal, async () => {
      try {
        const { deleted } = await ifKnown(ask(deletedSchema, { method: "DELETE", path, signal }));
        return deleted || mayBeDone;
      } catch (error) {
        if (error instanceof NetworkError && error.requestWasSent) mayBeDone = true;
        throw error;
      }
    });
  }

  /**
   * Tells the server that an upload will not be committed. If the request is lost, the server deletes the upload at its
   * next start.
   */
  async function giveUp(path: string): Promise<void> {
    const signal = AbortSignal.timeout(GIVE_UP_LIMIT_MS);
    await ask(v.object({}), { method: "DELETE", path, signal }).catch(() => undefined);
  }

  async function isNone(key: SnapshotKey, signal: AbortSignal): Promise<boolean> {
    const { state, versions } = await ask(keptSchema, { method: "GET", path: pathOf("keys", key), signal });
    return (state === "none" || state === "unmarked") && versions.length === 0;
  }
}

/** Whether the head of a response says that these bytes follow. */
function isPart(line: string, { from, to }: ByteRange): boolean {
  const { success, output } = v.safeParse(partHeadSchema, JSON.parse(line));
  return success && output.range.from === from && output.range.to === to;
}

/** Whether a server of an earlier version has refused a call that it does not have. */
function isNoSuchCall(error: unknown): boolean {
  return error instanceof StoreError && error.message.endsWith(NO_SUCH_CALL);
}

function pathOf(kind: string, key: SnapshotKey): string {
  checkSnapshotKey(key);
  return `/v1/${kind}/${key.tenantId}/${key.workloadRef}`;
}
