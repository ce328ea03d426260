import { timingSafeEqual } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { pipeline } from "node:stream/promises";
import * as v from "valibot";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { Log } from "../../../crds/log.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { countSchema, sha256Schema } from "../../../crds/snapshots/snapshot-metadata.ts";
import {
  type ByteRange,
  QuotaError,
  StoreConflict,
  StoreError,
  StoreFullError,
} from "../../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import {
  batchesSchema,
  commitSchema,
  keepContextSchema,
  MARK,
  MARKED,
  namedSchema,
  ontoSchema,
  roomSchema,
  type StoreRefusal,
  TOKEN,
  touchSchema,
  UPLOAD_ID,
} from "../../../crds/snapshots/store-protocol.ts";
import { MOST_BATCH_BYTES, usageMarks } from "../../../crds/usage/usage-store.ts";
import { sendPages } from "./send-pages.ts";
import { createVolume } from "./store/volume.ts";
import { READ_BYTES, type ReadSpace } from "./store/volume-files.ts";

/** A client that sends nothing for so long within a request is gone. */
const SILENCE_MS = 120_000;
/** Longer than clients keep unused connections, so that the client closes them, not the server. */
const KEPT_MS = 75_000;
const ALIVE_MS = 15_000;
const PASSED_OVER_MS = 10_000;
/** Any client that reaches the port can connect, and has sent no token yet. */
const STRANGER_MS = 10_000;
/** Each takes 25 KB; the operator and each edge have some tens. */
const MOST_CONNECTIONS = 1024;
const MOST_BODY_BYTES = 4 * 1024 * 1024;

export interface SnapshotServerOptions {
  /** The folder that the snapshots volume is mounted at. */
  readonly root: string;
  /** The present tokens. */
  readonly tokens: () => readonly string[];
  /** The present tokens that allow only `GET /v1/names`. @default none */
  readonly namesTokens?: (() => readonly string[]) | undefined;
  /** In PEM. @default plain HTTP, for tests */
  readonly tls?: { readonly key: string; readonly cert: string } | undefined;
  /** The interval of the 102 responses to a client that waits for the volume. @default 15000 */
  readonly aliveMs?: number | undefined;
  /** How long a client may take from connecting to the end of its request headers. @default 10000 */
  readonly strangerMs?: number | undefined;
  /** Of the pod that runs this server. @default it runs in no pod */
  readonly podUid?: string | undefined;
  /** The space of the volume. @default from the file system */
  readonly space?: ReadSpace | undefined;
  readonly log?: Log | undefined;
}

const markSchema = v.picklist(usageMarks);

interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

/**
 * The program of the helper pod: stores archives on the snapshots volume. No other program changes the volume. Its HTTP
 * protocol is in crds/snapshots/store-protocol.ts.
 */
export function createSnapshotServer(options: SnapshotServerOptions): Server {
  const { root, tokens, namesTokens = () => [], tls, aliveMs = ALIVE_MS, strangerMs = STRANGER_MS, log } = options;
  const volume = createVolume({ root, podUid: options.podUid, space: options.space });
  // If this fails, the first change tries it again.
  volume.takeOver().catch((error: unknown) => log?.warn({ error }, "cannot write to the snapshots volume"));

  function shows({ headers }: IncomingMessage, known: readonly string[]): boolean {
    const shown = String(headers[TOKEN] ?? "").split(",");
    return shown.some((one) => known.some((token) => isSame(Buffer.from(one), Buffer.from(token))));
  }

  async function answer(call: Call, path: string): Promise<void> {
    const { request, response, query, signal } = call;
    const [kind = "", tenantId = "", workloadRef = "", last = ""] = partsOf(path);
    const key = { tenantId, workloadRef };
    if (kind.startsWith("usage-") && request.headers[MARKED] !== "false" && !(await volume.isMarked())) {
      throw new StoreConflict("Cannot use usage records: the volume has no mark");
    }
    switch (`${request.method} ${kind}`) {
      case "GET keys":
        return send(response, await volume.look(key));
      case "POST keys": {
        const commit = v.parse(commitSchema, await readJson(request));
        return send(response, await volume.commit(key, commit, signal));
      }
      case "POST checkpoints": {
        const commit = v.parse(commitSchema, await readJson(request));
        if (commit.metadata.kind !== "checkpoint") throw new RequestError("Cannot store it: it is not a checkpoint");
        return send(response, await volume.commit(key, commit, signal));
      }
      case "DELETE checkpoints": {
        const session = query.get("session");
        if (session === null) throw new RequestError("Cannot delete a checkpoint without the uid of its session");
        return send(response, { deleted: await volume.dropCheckpoint(key, { session }, signal) });
      }
      case "PUT version-names": {
        const named = v.parse(namedSchema, { sha256: query.get("sha256"), name: decodeURIComponent(last) });
        return send(response, { outcome: await volume.setName(key, named, signal) });
      }
      case "DELETE version-names":
        return send(response, { deleted: await volume.dropName(key, { name: decodeURIComponent(last) }, signal) });
      case "POST room":
        await volume.checkRoom(key, v.parse(roomSchema, await readJson(request)));
        return send(response, {});
      case "DELETE keys": {
        const unusedForMs = query.get("unused-for-ms");
        const only = {
          replaces: query.get("replaces") ?? undefined,
          unusedForMs: unusedForMs === null ? undefined : v.parse(countSchema, Number(unusedForMs)),
        };
        return send(response, { deleted: await volume.delete(key, only, signal) });
      }
      case "GET archives":
        return await sendArchive(call, key, last);
      case "PUT uploads":
        return send(response, { received: await receive(call, key, last) });
      case "POST uploads": {
        const { keeps, ...onto } = v.parse(ontoSchema, await readJson(request));
        const given = { ...onto, id: checkId(last), keeps: Buffer.from(keeps, "base64") };
        return send(response, await volume.compose(key, given));
      }
      case "DELETE uploads":
        await volume.discard(key, checkId(last));
        return send(response, {});
      case "PUT contexts":
        return send(response, { received: await receiveContext(call, tenantId, workloadRef) });
      case "POST contexts":
        await volume.keepContext(tenantId, v.parse(keepContextSchema, await readJson(request)));
        return send(response, {});
      case "GET contexts":
        return await sendContext(call, tenantId, workloadRef);
      case "DELETE contexts":
        await volume.eraseContexts(tenantId, workloadRef === "" ? undefined : checkId(workloadRef));
        return send(response, {});
      case "PUT usage-records":
        await volume.addRecords({
          hour: tenantId,
          name: workloadRef,
          lines: await readText(request, MOST_BATCH_BYTES),
        });
        return send(response, {});
      case "GET usage-records":
        return await sendRecords(call, { from: tenantId, to: workloadRef });
      case "GET usage-hours":
        return send(response, { hours: await volume.hours() });
      case "GET usage-batches":
        return send(response, { names: await volume.batches(tenantId) });
      case "POST usage-batches": {
        const { names } = v.parse(batchesSchema, await readJson(request));
        await volume.dropRecords({ hour: tenantId, names });
        return send(response, {});
      }
      case "GET usage-until":
        return send(response, { until: await volume.recordedUntil() });
      case "PUT usage-until":
        await volume.setRecordedUntil(tenantId);
        return send(response, {});
      case "GET usage-marks":
        return send(response, { until: await volume.mark(v.parse(markSchema, tenantId)) });
      case "PUT usage-marks":
        await volume.setMark(v.parse(markSchema, tenantId), workloadRef);
        return send(response, {});
      case "GET list": {
        const [versions, uses] = ["versions", "uses"].map((name) => query.get(name) === "true");
        return await sendPages(call, (page) => volume.list({ ...page, versions: versions === true, uses }));
      }
      case "GET names":
        return await sendPages(call, volume.names);
      case "GET space":
        return send(response, await volume.space());
      case "GET usage":
        return send(response, await volume.usage());
      case "POST touch":
        await volume.touch(v.parse(touchSchema, await readJson(request)));
        return send(response, {});
      case "POST tidy":
        await volume.tidy();
        return send(response, {});
      default:
        throw new RequestError(`Cannot ${request.method} ${path}: there is no such call`);
    }
  }

  async function receive({ request, query, signal }: Call, key: SnapshotKey, id: string) {
    const options = { id: checkId(id), isMarked: request.headers[MARKED] === "true" };
    const from = query.get("from");
    if (from === null) return await volume.receive(key, bodyOf(request), { ...options, signal });
    const [tenantId = "", workloadRef = "", sha256 = ""] = from.split("/");
    return await volume.receiveKept(key, { tenantId, workloadRef, sha256 }, options);
  }

  async function receiveContext({ request, query, signal }: Call, workload: string, id: string) {
    const mostBytes = v.parse(countSchema, Number(query.get("most") ?? Number.NaN));
    const asked = query.get("volume");
    const volumeBytes = asked === null ? undefined : v.parse(countSchema, Number(asked));
    return await volume.receiveContext(workload, bodyOf(request), { id: checkId(id), mostBytes, volumeBytes, signal });
  }

  async function sendArchive(call: Call, key: SnapshotKey, sha256: string): Promise<void> {
    const range = call.query.has("to") ? rangeIn(call.query) : undefined;
    const found = await volume.open(key, sha256);
    if (found === undefined) return await sendFile(call, undefined);
    const { handle, metadata } = found;
    const { sizeBytes } = metadata;
    const whole = { from: 0, to: sizeBytes };
    if (range !== undefined && !(range.from <= range.to && range.to <= sizeBytes)) {
      await handle.close();
      throw new RequestError(`Cannot read the bytes ${range.from} to ${range.to}: the archive has ${sizeBytes}`);
    }
    await sendFile(call, { handle, head: { ...metadata, range }, ...(range ?? whole) });
  }

  async function sendContext(call: Call, workload: string, sha256: string): Promise<void> {
    const found = await volume.openContext(workload, v.parse(sha256Schema, sha256));
    await sendFile(call, found && { ...found, head: { sizeBytes: found.sizeBytes }, from: 0, to: found.sizeBytes });
  }

  async function sendRecords({ response, signal }: Call, range: { from: string; to: string }): Promise<void> {
    const { sizeBytes, content } = await volume.openRecords(range);
    const head = Buffer.from(`${JSON.stringify({ sizeBytes })}\n`);
    response.setHeader("content-type", "application/x-ndjson");
    response.setHeader("content-length", head.length + sizeBytes);
    response.write(head);
    await pipeline(content, response, { signal });
  }

  function handle(request: IncomingMessage, response: ServerResponse): void {
    const gone = new AbortController();
    response.on("close", () => gone.abort(new Error("the client is gone")));
    response.setHeader(MARK, "1");
    const [pathname = "", search = ""] = (request.url ?? "").split("?", 2);
    const query = new URLSearchParams(search);
    if (pathname === "/healthz") {
      response.setHeader("connection", "close");
      volume.space().then(
        () => response.end("ok\n"),
        () => response.writeHead(503).end("the volume cannot be read\n"),
      );
      return;
    }
    if (!shows(request, tokens())) {
      if (!shows(request, namesTokens())) {
        // Do not keep the connection, since their number is limited. An upload's ends when its client has read why.
        if (!hasBody(request)) response.setHeader("connection", "close");
        refuse(response, 401, { error: "a valid token is needed", kind: "request", isTransient: true });
        return;
      }
      if (request.method !== "GET" || pathname !== "/v1/names") {
        const error = `Cannot ${request.method} ${pathname}: this token allows only GET /v1/names`;
        refuse(response, 403, { error, kind: "request" });
        return;
      }
    }
    // A slow disk may take minutes to answer, and a client treats silence as the end of the connection.
    const alive = setInterval(() => {
      if (!response.headersSent) response.writeProcessing();
    }, aliveMs);
    response.on("close", () => clearInterval(alive));
    answer({ request, response, query, signal: gone.signal }, pathname).catch((error: unknown) => {
      const [status, refusal] = refusalOf(error);
      if (status === 500) log?.warn({ error, method: request.method, path: pathname }, "snapshot request failed");
      refuse(response, status, refusal);
    });
  }

  const strangers = { headersTimeout: strangerMs, connectionsCheckingInterval: strangerMs / 2 };
  const server =
    tls === undefined
      ? createServer(strangers, handle)
      : createSecureServer({ ...strangers, ...tls, handshakeTimeout: strangerMs }, handle);
  server.maxConnections = MOST_CONNECTIONS;
  // A transfer has no time limit; only silence has.
  server.requestTimeout = 0;
  server.timeout = SILENCE_MS;
  server.keepAliveTimeout = KEPT_MS;
  return server;
}

function rangeIn(query: URLSearchParams): ByteRange {
  const [from, to] = ["from", "to"].map((name) => v.parse(countSchema, Number(query.get(name) ?? Number.NaN)));
  return { from: from ?? 0, to: to ?? 0 };
}

function isSame(shown: Buffer, known: Buffer): boolean {
  return shown.length > 0 && shown.length === known.length && timingSafeEqual(shown, known);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** A request that no client of this version sends. */
class RequestError extends Error {}

/** A request's body. It stays open if its reader stops early. */
function bodyOf(request: IncomingMessage): AsyncIterable<Buffer> {
  return { [Symbol.asyncIterator]: () => request.iterator({ destroyOnReturn: false }) };
}

function checkId(id: string): string {
  if (UPLOAD_ID.test(id)) return id;
  throw new RequestError(`Cannot store it: "${id}" is not a valid id`);
}

/** Sends a line about a file, then its bytes; an empty line if there is none. */
async function sendFile(
  { response, signal }: Call,
  file: { handle: FileHandle; head: object; from: number; to: number } | undefined,
): Promise<void> {
  if (file === undefined) {
    response.end("\n");
    return;
  }
  const { handle, from, to } = file;
  try {
    const head = Buffer.from(`${JSON.stringify(file.head)}\n`);
    response.setHeader("content-type", "application/octet-stream");
    response.setHeader("content-length", head.length + to - from);
    response.write(head);
    if (to === from) {
      response.end();
      return;
    }
    const content = handle.createReadStream({ highWaterMark: READ_BYTES, start: from, end: to - 1 });
    await pipeline(content, response, { signal });
  } finally {
    await handle.close();
  }
}

/** The parts after `/v1/`. No part of a key has a character that has to be escaped. */
function partsOf(path: string): string[] {
  const [, version, ...parts] = path.split("/");
  return version === "v1" ? parts : [];
}

function refusalOf(error: unknown): [status: number, refusal: StoreRefusal] {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof StoreConflict) return [412, { error: message, kind: "conflict" }];
  if (error instanceof ArchiveError) return [422, { error: message, kind: "archive", reason: error.reason }];
  if (error instanceof QuotaError) return [507, { error: message, kind: "quota" }];
  if (error instanceof StoreFullError) return [507, { error: message, kind: "full" }];
  if (error instanceof StoreError) return [500, { error: message, kind: "store", isTransient: error.isTransient }];
  const isRequest = error instanceof RequestError || error instanceof TypeError || error instanceof v.ValiError;
  if (isRequest) return [400, { error: message, kind: "request" }];
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") {
    const full = `the snapshots volume is full (${message}): enlarge its volume claim ${SNAPSHOTS_NAME}, or delete snapshots`;
    return [507, { error: full, kind: "full" }];
  }
  // A read-only disk stays read-only for a while; all other errors of a disk may be temporary.
  const isTransient = code !== "EROFS" && code !== "EACCES";
  return [500, { error: message, kind: "store", isTransient }];
}

function refuse(response: ServerResponse, status: number, refusal: StoreRefusal): void {
  // In the middle of an archive, only the end of the connection can report the error.
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.statusCode = status;
  send(response, refusal);
  // Discard the rest of an upload until the client has read the reason and ends it: a client whose connection ends
  // while it sends cannot read the reason.
  const { req: request } = response;
  if (request.complete) return;
  request.resume();
  const ending = setTimeout(() => request.destroy(), PASSED_OVER_MS).unref();
  request.once("close", () => clearTimeout(ending));
}

function send(response: ServerResponse, content: object): void {
  const body = Buffer.from(JSON.stringify(content));
  response.setHeader("content-type", "application/json");
  response.setHeader("content-length", body.length);
  response.end(body);
}

async function readText(request: IncomingMessage, mostBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new RequestError(`Cannot read the request: more than ${mostBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const text = await readText(request, MOST_BODY_BYTES);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RequestError("Cannot read the request: it is not JSON", { cause });
  }
}
