import type { Log } from "../../crds/log.ts";
import { onAbort } from "../../crds/waits.ts";
import { type Actor, root } from "../access/actor.ts";
import { answerAs } from "../access/answer-as.ts";
import type { Audit } from "../audit/audit.ts";
import { createClient } from "../client/index.ts";
import type { Access } from "../http/access.ts";
import { apiKeyAuthorization } from "../http/api-key.ts";
import { createDerivedKey } from "../http/derived-key.ts";
import type { Handler } from "../http/handler.ts";
import type { PageCheck } from "../http/page-check.ts";
import { readObject } from "../http/read-json.ts";
import { jsonResponse } from "../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../http/router.ts";
import { fetchInProcess } from "./in-process.ts";
import { createOpenCalls } from "./open-calls.ts";
import { createSessionIds } from "./session-id.ts";
import { createUnread, type Unread } from "./unread.ts";

export interface McpServices {
  /** The edge's own handler, which the tools call. */
  readonly handler: Handler;
  /** TENANCY_API_KEY: sessions are signed with a key that comes from it. */
  readonly apiKey: string | undefined;
  /** Finds who sent a request. Undefined if no key is set. */
  readonly authenticate: Access["authenticate"];
  readonly checkPage: PageCheck;
  readonly audit: Pick<Audit, "begin">;
  readonly log: Log;
}

const SESSION = "mcp-session-id";
/** What goes from a message to the calls that it makes: who sent it. A browser's session is not accepted. */
const PASSED_ON = ["authorization", "x-forwarded-for", "traceparent", "tracestate", "x-request-id"];
/** Only to make URLs; the requests do not leave the process. */
const BASE = "http://edge.invalid";

/**
 * `POST /mcp`: the Model Context Protocol over streamable HTTP
 * (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http). Each message has a server
 * of its own, so any replica answers it. It is no part of the REST API's document.
 */
export function mcpRoutes(services: McpServices): Route[] {
  const { authenticate, audit, checkPage } = services;
  const calls = createOpenCalls();
  const countUnread = createUnread();
  const sessionIds = createSessionIds(createDerivedKey(services.apiKey ?? "", "tenancy mcp session v1"));

  /** Refused requests are recorded here, and others by the calls that they make. */
  async function senderOf(request: RoutedRequest, context: RequestContext): Promise<Sender> {
    try {
      const headers = headersOf(request);
      if (authenticate === undefined) {
        checkPage(request);
        return { headers, context, actor: root };
      }
      const { actor } = await authenticate(new Request(BASE, { headers }), {
        ...context,
        peerOf: () => context.peerOf?.(request),
      });
      return { headers, context, actor };
    } catch (error) {
      Object.assign(request, { audit: audit.begin(request, "change", context.peerOf) });
      throw error;
    }
  }

  async function answer(request: RoutedRequest, sender: Sender): Promise<Response> {
    const { actor, context } = sender;
    const message = (await readObject(request)) as Message;
    const session = request.headers.get(SESSION) ?? undefined;
    if (session !== undefined && !(await sessionIds.isOf(actor, session))) return sessionNotFound();
    if (message.method === "notifications/cancelled" && session !== undefined)
      calls.cancel(session, message.params?.requestId);
    const response = await answerMessage(message, { request, sender, session });
    if (message.method === "initialize" && response.ok) response.headers.set(SESSION, await sessionIds.issue(actor));
    context.mayBeSilent?.();
    return response;
  }

  async function answerMessage(
    message: Message,
    { request, sender, session }: { request: Request; sender: Sender; session: string | undefined },
  ): Promise<Response> {
    const { actor, context, headers } = sender;
    // They take a tenth of a second and 16 MB to load, which most edges never need.
    const [{ createMcpServer }, { WebStandardStreamableHTTPServerTransport }] = await Promise.all([
      import("./server.ts"),
      import("@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js"),
    ]);
    const fetch = fetchInProcess({ handler: services.handler, request, context, headers });
    const unread = countUnread(actor.ref);
    const server = createMcpServer({ client: createClient({ url: BASE, fetch }), log: services.log, unread });
    const transport = new WebStandardStreamableHTTPServerTransport({});
    const done = (): void => {
      remove();
      ignoreAbort();
      unread.close();
      void server.close();
    };
    const remove = calls.add({ ref: actor.ref, session, id: message.id, end: done });
    const gone = context.clientGone ?? request.signal;
    const ignoreAbort = onAbort(gone, done);
    try {
      await server.connect(transport);
      gone.throwIfAborted();
      const response = await transport.handleRequest(request, { parsedBody: message });
      if (response.body !== null && message.id !== undefined)
        return withEnd(response, response.body, { unread, onEnd: done });
      done();
      return response;
    } catch (error) {
      done();
      throw error;
    }
  }

  return [
    {
      method: "POST",
      path: "/mcp",
      // It finds the key itself, in other headers too.
      public: true,
      act: "none",
      async handle(request, context) {
        const sender = await senderOf(request, context);
        const { actor } = sender;
        const handle = (asked: RoutedRequest, context: RequestContext) => answer(asked, { ...sender, context });
        if (actor === root) return await handle(request, context);
        return await answerAs(actor, { request, context, access: undefined }, handle);
      },
    },
  ];
}

interface Sender {
  readonly actor: Actor;
  readonly headers: Headers;
  readonly context: RequestContext;
}

interface Message {
  readonly method?: unknown;
  readonly id?: unknown;
  readonly params?: { readonly requestId?: unknown };
}

/** Those of {@link PASSED_ON}, with a key in `X-API-KEY` as `Authorization: Bearer`. */
function headersOf(request: Request): Headers {
  const found = new Headers();
  for (const name of PASSED_ON) {
    const value = request.headers.get(name);
    if (value !== null) found.set(name, value);
  }
  const authorization = apiKeyAuthorization(request);
  if (authorization !== undefined) found.set("authorization", authorization);
  return found;
}

/** The specification's answer, after which a client begins a new session. */
function sessionNotFound(): Response {
  const message = "there is no such session of this key; begin a new one with initialize, without mcp-session-id";
  return jsonResponse({ jsonrpc: "2.0", error: { code: -32001, message }, id: null }, { status: 404 });
}

/** A response whose end, or whose reader's, is noticed, and what is read of it. */
function withEnd(
  response: Response,
  body: ReadableStream<Uint8Array>,
  { unread, onEnd }: { unread: Unread; onEnd: () => void },
): Response {
  const { status, headers } = response;
  const reader = body.getReader();
  const watched = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (!done) {
          unread.read(value.byteLength);
          return controller.enqueue(value);
        }
        controller.close();
        onEnd();
      },
      async cancel(reason) {
        onEnd();
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(watched, { status, headers });
}
