import * as v from "valibot";
import { oneLine } from "../one-line.ts";
import { DriverError } from "./driver.ts";
import type { JsonMessage } from "./json-socket.ts";

const errorSchema = v.object({
  code: v.string(),
  message: v.string(),
  details: v.optional(v.unknown()),
  retryable: v.optional(v.boolean()),
  retryAfterMs: v.optional(v.number()),
});

const frameSchema = v.variant("type", [
  v.object({ type: v.literal("event"), event: v.string(), payload: v.optional(v.unknown()) }),
  v.object({
    type: v.literal("res"),
    id: v.string(),
    ok: v.boolean(),
    payload: v.optional(v.unknown()),
    error: v.optional(errorSchema),
  }),
]);

/** What the server of the Gateway protocol sends (OpenClaw, page "Gateway protocol transport"). */
export type AgentFrame = v.InferOutput<typeof frameSchema>;
export type AgentResponse = AgentFrame & { type: "res" };

/** Reads a frame; undefined for one of a type that this protocol may get later. @throws DriverError */
export function parseFrame(message: JsonMessage): AgentFrame | undefined {
  if (typeof message.type === "string" && message.type !== "event" && message.type !== "res") return undefined;
  const parsed = v.safeParse(frameSchema, message);
  if (parsed.success) return parsed.output;
  throw new DriverError("the agent sent a malformed frame", { nothingSent: false });
}

/** A request that the agent refused. */
export function refusal(what: string, { error }: AgentResponse): DriverError {
  const { code = "no code", message = "no reason given" } = error ?? {};
  return new DriverError(`the agent refused ${what}: ${oneLine(message)} (${oneLine(code)})`, { nothingSent: false });
}
