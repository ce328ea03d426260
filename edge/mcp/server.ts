import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  ErrorCode,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { describeError } from "../../crds/describe-error.ts";
import type { Log } from "../../crds/log.ts";
import { ApiError, type Client } from "../client/index.ts";
import { startOf } from "./bounded-text.ts";
import { readResource, template } from "./resources.ts";
import { InputError, type ToolContext } from "./tool.ts";
import { tools } from "./tools.ts";
import type { Unread } from "./unread.ts";

const INSTRUCTIONS =
  "Instances are isolated Linux containers of a workload, one for each tenant. Claim one, run commands and handle files in it, and release it when you are done: a release saves its files if the workload saves files. Use the tenant and the workload that the user names.";

const MOST_OF_ERROR = 4096;
/** Characters of a progress token, which every progress message repeats. */
const MOST_OF_TOKEN = 256;
/** What the transport adds to a notification: the line of its kind, and the version of JSON-RPC. */
const FRAME_BYTES = 40;

/**
 * A server for one message of a client.
 *
 * @param options.client makes the calls of the tools, with the key of the one who sent the message
 * @param options.unread counts progress, which is left out while too much of it is unread
 */
export function createMcpServer({ client, log, unread }: { client: Client; log: Log; unread: Unread }): Server {
  const server = new Server(
    { name: "tenancy", title: "tenancy", version: "1" },
    {
      capabilities: { tools: {}, resources: {} },
      instructions: INSTRUCTIONS,
      // It asks clients for nothing, so it has no answers to check; the default is slow to make.
      jsonSchemaValidator: { getValidator: refuseToValidate },
    },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [...tools.values()].map(({ listed }) => listed) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, sendNotification }) => {
    const tool = tools.get(params.name);
    if (tool === undefined)
      throw new McpError(ErrorCode.InvalidParams, `there is no such tool; known are ${[...tools.keys()].join(", ")}`);
    const progressToken = params._meta?.progressToken;
    if (typeof progressToken === "string" && progressToken.length > MOST_OF_TOKEN)
      throw new McpError(
        ErrorCode.InvalidParams,
        `the progressToken has ${progressToken.length} characters; send one of at most ${MOST_OF_TOKEN}`,
      );
    let progress = 0;
    const send: ToolContext["report"] = (message) => {
      // A gap in these numbers is progress that was left out.
      progress += 1;
      const notification = { method: "notifications/progress", params: { progressToken, progress, message } } as const;
      if (!unread.add(FRAME_BYTES + Buffer.byteLength(JSON.stringify(notification)))) return;
      // A client that has left hears no more.
      sendNotification(notification as Parameters<typeof sendNotification>[0]).catch(() => undefined);
    };
    const report = progressToken === undefined ? undefined : send;
    try {
      const output = await tool.call(params.arguments ?? {}, { client, signal, report });
      return { content: [{ type: "text", text: JSON.stringify(output) }], structuredContent: output };
    } catch (error) {
      // Nothing is answered to a call that was cancelled.
      signal.throwIfAborted();
      return { content: [{ type: "text", text: wordsOf(error, log) }], isError: true };
    }
  });
  // They cannot be listed: an instance has as many files as its image.
  server.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: [] }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: [template] }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }, { signal }) => {
    try {
      return { contents: [await readResource(uri, { client, signal })] };
    } catch (error) {
      signal.throwIfAborted();
      const isNotFound = error instanceof ApiError && error.status === 404;
      throw new McpError(isNotFound ? RESOURCE_NOT_FOUND : ErrorCode.InvalidParams, wordsOf(error, log), { uri });
    }
  });
  return server;
}

/** https://modelcontextprotocol.io/specification/2025-11-25/server/resources#error-handling */
const RESOURCE_NOT_FOUND = -32002;

/** What is said of an error: the API's own words, which may repeat what was sent. */
function wordsOf(error: unknown, log: Log): string {
  return startOf(fullWordsOf(error, log), MOST_OF_ERROR);
}

function fullWordsOf(error: unknown, log: Log): string {
  if (error instanceof ApiError || error instanceof InputError) return error.message;
  // The client's, for a name that no URL can hold.
  if (error instanceof TypeError && error.message.startsWith("Cannot use ")) return error.message;
  log.error({ error: describeError(error) }, "MCP call failed");
  return "internal error; the server's log has details";
}

function refuseToValidate(): never {
  throw new Error("Cannot validate an answer of a client: none is asked for");
}
