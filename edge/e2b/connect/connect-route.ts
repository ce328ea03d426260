import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import { JsonBoundError, parseForeignJson } from "../../../crds/foreign-json.ts";
import type { Log } from "../../../crds/log.ts";
import { quote } from "../../../crds/quote.ts";
import { tenantUse } from "../../access/route-access.ts";
import { ENDLESS_MS } from "../../api/inside/call-inside.ts";
import type { Act } from "../../audit/audit-record.ts";
import { HttpError } from "../../http/http-error.ts";
import { readBytes } from "../../http/read-bytes.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../../http/router.ts";
import { readUpload, UPLOAD_LIMIT_MS } from "../../http/upload.ts";
import { type ConnectError, connectErrorOf, unaryError } from "./connect-error.ts";
import { endEnvelope, MAX_MESSAGE_BYTES, messageEnvelope, readEnvelopes } from "./envelope.ts";
import { eventStream, type ServerEvents, STREAM_TYPE } from "./event-stream.ts";

/** A call as its handler gets it. */
export interface Call<Message> {
  readonly message: Message;
  readonly request: RoutedRequest;
  readonly context: RequestContext;
  /** Milliseconds that the client waits. @default any time */
  readonly limitMs: number | undefined;
}

interface Procedure<Schema extends v.GenericSchema, Answer> {
  /** Such as `/process.Process/Start`. */
  readonly path: string;
  /** What the audit log says of it. @default `change` */
  readonly act?: Act | "none";
  readonly schema: Schema;
  readonly handle: (call: Call<v.InferOutput<Schema>>) => Promise<Answer>;
}

export interface StreamServices {
  readonly clock: Clock;
  readonly log: Log;
}

const UNARY_TYPE = "application/json";
const DEFAULT_KEEP_ALIVE_S = 90;
/** All messages of a client's stream. */
const MAX_STREAM_BYTES = 2 ** 40;
/** A message is mostly one text. */
const BOUNDS = { characters: MAX_MESSAGE_BYTES };

/** A call with one message in each direction. A handler with a long answer may make the response. */
export function unaryRoute<Schema extends v.GenericSchema>(procedure: Procedure<Schema, object>): Route {
  const { schema, handle } = procedure;
  return routeOf(procedure, async (request, context) => {
    requireType(request, UNARY_TYPE, "content-encoding");
    const limitMs = timeoutOf(request);
    const message = readMessage(await readBytes(request, { limit: MAX_MESSAGE_BYTES }), schema);
    const answer = await handle({ message, request, context, limitMs });
    return answer instanceof Response ? answer : jsonResponse(answer);
  });
}

/** A call that is answered with a stream. */
export function serverStreamRoute<Schema extends v.GenericSchema>(
  procedure: Procedure<Schema, ServerEvents>,
  { clock, log, keepAlive }: StreamServices & { keepAlive: object },
): Route {
  const { schema, handle } = procedure;
  return routeOf(procedure, async (request, context) => {
    requireType(request, STREAM_TYPE, "connect-content-encoding");
    const limitMs = timeoutOf(request);
    const messages = readEnvelopes(limitedBody(request, context, 2 * MAX_MESSAGE_BYTES));
    const first = await messages.next();
    const isOne = first.done !== true && (await messages.next()).done === true;
    if (!isOne) throw new HttpError(400, "body: must have one message");
    const answer = await handle({ message: readMessage(first.value, schema), request, context, limitMs });
    return eventStream(answer, { keepAlive: { ms: keepAliveMs(request), message: keepAlive }, clock, log });
  });
}

/** A call with a stream of messages, and one answer. */
export function clientStreamRoute<Schema extends v.GenericSchema>({
  path,
  schema,
  handle,
}: Omit<Procedure<v.GenericSchema, object>, "schema" | "handle"> & {
  schema: Schema;
  handle: (call: Call<AsyncGenerator<v.InferOutput<Schema>, void>>) => Promise<object>;
}): Route {
  return routeOf({ path }, async (request, context) => {
    requireType(request, STREAM_TYPE, "connect-content-encoding");
    const limitMs = timeoutOf(request);
    // A program that types may pause for long: E2B's SDKs send nothing then.
    const options = { limit: MAX_STREAM_BYTES, silenceMs: UPLOAD_LIMIT_MS };
    const upload = readUpload(request, { ...options, clientGone: context.clientGone ?? request.signal });
    async function* read(): AsyncGenerator<v.InferOutput<Schema>, void> {
      for await (const bytes of readEnvelopes(upload.chunks)) yield readMessage(bytes, schema);
    }
    const messages = read();
    try {
      const answer = await handle({ message: messages, request, context, limitMs });
      return streamResponse([messageEnvelope(answer), endEnvelope()]);
    } finally {
      upload.close();
      // Its timers end with it.
      void messages.return().catch(() => undefined);
    }
  });
}

/** The response of a call that has failed: a stream says it in its last message. */
export function failedCall(error: HttpError, { headers }: Request): Response {
  if (!isType(headers, STREAM_TYPE)) return unaryError(error);
  const failure: ConnectError = connectErrorOf(error);
  return streamResponse([endEnvelope(failure)], error.headers);
}

function routeOf(
  { path, act = "change" }: Pick<Procedure<v.GenericSchema, unknown>, "path" | "act">,
  handle: Route["handle"],
): Route {
  return { method: "POST", path, act, access: tenantUse, handle };
}

function streamResponse(envelopes: Uint8Array[], headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(Buffer.concat(envelopes), { headers: { ...headers, "content-type": STREAM_TYPE } });
}

async function* limitedBody(request: Request, context: RequestContext, limit: number): AsyncGenerator<Uint8Array> {
  const signal = context.clientGone ?? request.signal;
  yield await readBytes(request, { limit, signal });
}

function isType(headers: Headers, type: string): boolean {
  const [given = ""] = (headers.get("content-type") ?? "").split(";");
  return given.trim().toLowerCase() === type;
}

function requireType({ headers }: Request, type: string, encodingHeader: string): void {
  if (!isType(headers, type)) {
    const given = headers.get("content-type") ?? "nothing";
    throw new HttpError(415, `content-type: must be ${type}, got ${quote(given)}`, {
      headers: { "accept-post": type },
    });
  }
  const encoding = headers.get(encodingHeader) ?? "identity";
  if (encoding !== "identity")
    throw new HttpError(501, `${encodingHeader}: send messages without compression`, { expected: true });
  const version = headers.get("connect-protocol-version") ?? "1";
  if (version !== "1") throw new HttpError(400, `connect-protocol-version: must be 1, got ${quote(version)}`);
}

/** Milliseconds, at most those of a followed stream, since timers take at most 25 days. Undefined for no limit. */
function timeoutOf({ headers }: Request): number | undefined {
  const text = headers.get("connect-timeout-ms") ?? "0";
  if (!/^\d{1,10}$/.test(text)) throw new HttpError(400, "connect-timeout-ms: must be at most ten digits");
  return Number(text) === 0 ? undefined : Math.min(Number(text), ENDLESS_MS);
}

/** The client's wish in seconds, which may not make the server busy. */
function keepAliveMs({ headers }: Request): number {
  const text = headers.get("keepalive-ping-interval") ?? "";
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : DEFAULT_KEEP_ALIVE_S;
  return 1000 * Math.min(Math.max(seconds, 1), DEFAULT_KEEP_ALIVE_S);
}

/** @throws HttpError 400 that names the place, 413 for too many values */
function readMessage<Schema extends v.GenericSchema>(bytes: Uint8Array, schema: Schema): v.InferOutput<Schema> {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  let value: unknown = {};
  try {
    if (text !== "") value = parseForeignJson(text, BOUNDS);
  } catch (cause) {
    if (cause instanceof JsonBoundError) throw new HttpError(cause.status, `body: ${cause.message}`, { cause });
    throw new HttpError(400, "body: is not JSON", { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new HttpError(400, "body: must be a JSON object");
  const parsed = v.safeParse(schema, withJsonNames(value));
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  throw new HttpError(400, `body.${v.getDotPath(issue) ?? ""}: ${issue.message}`);
}

/** Both names of a field are valid: https://protobuf.dev/programming-guides/json/#json-options */
function withJsonNames(message: object): object {
  return Object.fromEntries(
    Object.entries(message).map(([name, value]) => [
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );
}
