import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import type Anthropic from "@anthropic-ai/sdk";
import * as v from "valibot";

/** What the model says next: a call of a tool, or its last words. */
type Reply = { readonly tool: string; readonly input: object } | { readonly text: string };

const toolUse = v.object({ type: v.literal("tool_use"), id: v.string() });
const toolResult = v.object({ type: v.literal("tool_result"), tool_use_id: v.string(), content: v.string() });
const otherBlock = v.object({ type: v.literal("text"), text: v.string() });
const request = v.object({
  model: v.string(),
  max_tokens: v.number(),
  stream: v.optional(v.literal(false)),
  messages: v.array(
    v.object({
      role: v.picklist(["user", "assistant"]),
      content: v.union([v.string(), v.array(v.variant("type", [toolUse, toolResult, otherBlock]))]),
    }),
  ),
  tools: v.array(v.object({ name: v.string(), input_schema: v.looseObject({ type: v.literal("object") }) })),
});

/** A server of Anthropic's Messages API on loopback: https://docs.claude.com/en/api/messages */
export interface FakeModel {
  /** What a user of the SDKs sets. */
  readonly environment: { readonly ANTHROPIC_BASE_URL: string; readonly ANTHROPIC_API_KEY: string };
  close(): Promise<void>;
}

/**
 * Starts a model whose every reply is made of what the tools have returned so far. As the real one, it refuses a
 * request in which a call of a tool has no result.
 */
export async function startFakeModel(reply: (results: readonly string[]) => Reply): Promise<FakeModel> {
  const key = randomUUID();

  function answer(body: unknown): Anthropic.Message {
    const { model, messages, tools } = v.parse(request, body);
    const blocks = messages.flatMap(({ content }) => (typeof content === "string" ? [] : content));
    const uses = blocks.flatMap((block) => (block.type === "tool_use" ? block.id : []));
    const results = blocks.flatMap((block) => (block.type === "tool_result" ? block : []));
    if (String(uses) !== String(results.map((result) => result.tool_use_id)))
      throw new Error("each tool_use must have a tool_result");
    const next = reply(results.map(({ content }) => content));
    const isUse = "tool" in next;
    if (isUse && !tools.some(({ name }) => name === next.tool)) throw new Error(`there is no tool ${next.tool}`);
    return {
      ...{ id: `msg_${randomUUID()}`, type: "message", role: "assistant", model },
      content: [
        isUse
          ? {
              ...{ type: "tool_use", id: `toolu_${randomUUID()}`, name: next.tool, input: next.input },
              caller: { type: "direct" },
            }
          : { type: "text", text: next.text, citations: null },
      ],
      ...{ stop_reason: isUse ? "tool_use" : "end_turn", stop_sequence: null, stop_details: null },
      ...{ container: null, diagnostics: null },
      usage: {
        ...{ input_tokens: 1, output_tokens: 1, output_tokens_details: null, server_tool_use: null },
        ...{ cache_creation: null, cache_creation_input_tokens: null, cache_read_input_tokens: null },
        ...{ inference_geo: null, service_tier: "standard", speed: "standard" },
      },
    };
  }

  const server = createServer(async (incoming, response) => {
    const { method, url, headers } = incoming;
    const send = (status: number, body: object) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    const refuse = (status: number, type: string, message: string) =>
      send(status, { type: "error", error: { type, message } });
    const given = headers["x-api-key"] ?? headers.authorization?.replace(/^Bearer /, "");
    if (`${method} ${url}` !== "POST /v1/messages") refuse(404, "not_found_error", `${method} ${url}`);
    else if (given !== key) refuse(401, "authentication_error", "invalid x-api-key");
    else if (headers["anthropic-version"] === undefined)
      refuse(400, "invalid_request_error", "anthropic-version: header is required");
    else
      try {
        send(200, answer(await json(incoming)));
      } catch (error) {
        refuse(400, "invalid_request_error", String(error));
      }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    environment: { ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}`, ANTHROPIC_API_KEY: key },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
