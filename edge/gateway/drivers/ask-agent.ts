import * as v from "valibot";
import { TimeLimitError, withTimeLimit } from "../../../crds/waits.ts";
import { type AgentFrame, type AgentResponse, parseFrame, refusal } from "./agent-frame.ts";
import { DriverError, oneLine } from "./driver.ts";
import type { JsonMessage } from "./json-socket.ts";
import { type BoundedText, type Conversation, createBoundedText, promptText } from "./socket-driver.ts";

const chatSchema = v.object({
  runId: v.string(),
  state: v.string(),
  message: v.optional(v.unknown()),
  deltaText: v.optional(v.string()),
  replace: v.optional(v.boolean()),
  errorMessage: v.optional(v.string()),
  stopReason: v.optional(v.string()),
});
type Chat = v.InferOutput<typeof chatSchema>;

const acknowledgementSchema = v.object({
  runId: v.optional(v.string()),
  status: v.optional(v.string()),
  summary: v.optional(v.string()),
});
const historySchema = v.object({ messages: v.array(v.unknown()) });
const answerRowSchema = v.object({ role: v.literal("assistant"), __openclaw: v.object({ runId: v.string() }) });

/** Rows of the history in which the answer to a repeated event is searched. */
const HISTORY_ROWS = 50;

/**
 * How long a run started by another connection may be silent before the question is repeated, which the protocol
 * allows: the run may have ended between its last event and the acknowledgement.
 */
const REPEAT_MS = 5000;

/**
 * Sends the payload with `chat.send` and collects the `chat` events of its run. If the run of a repeated payload has
 * already ended, the answer comes from `chat.history`.
 *
 * @throws DriverError if the run fails or is refused
 */
export async function askAgent(conversation: Conversation): Promise<string> {
  const { socket, call, clock } = conversation;
  const { id, tenantId } = call.payload;
  const params = { sessionKey: tenantId, message: promptText(call.payload), idempotencyKey: id };
  const answer = createBoundedText();
  const runs = new Set([id]);
  let repeatAt: number | undefined;
  socket.send({ type: "req", id: "send", method: "chat.send", params });
  for (;;) {
    const message = await receive(conversation, repeatAt);
    const frame = message === undefined ? undefined : parseFrame(message);
    if (message === undefined) {
      repeatAt = undefined;
      socket.send({ type: "req", id: "send", method: "chat.send", params });
    } else if (frame?.type === "res" && frame.id === "send") {
      const { runId, status } = acknowledgement(frame);
      if (runId !== undefined) runs.add(runId);
      if (status === "in_flight") repeatAt = clock.now() + REPEAT_MS;
      if (status === "ok") {
        const history = { sessionKey: tenantId, limit: HISTORY_ROWS };
        socket.send({ type: "req", id: "history", method: "chat.history", params: history });
      }
    } else if (frame?.type === "res" && frame.id === "history") {
      return pastAnswer(frame, runs);
    } else if (frame?.type === "event") {
      const chat = chatOf(frame, runs);
      if (chat === undefined) continue;
      if (takeIn(chat, answer)) return answer.toString();
      if (repeatAt !== undefined) repeatAt = clock.now() + REPEAT_MS;
    }
  }
}

/** Returns undefined if nothing arrives by that time. */
async function receive(
  { socket, clock, signal }: Conversation,
  until: number | undefined,
): Promise<JsonMessage | undefined> {
  if (until === undefined) return socket.receive(signal);
  const limit = { what: "the next message", ms: Math.max(0, until - clock.now()), clock, signal };
  try {
    return await withTimeLimit(limit, (limited) => socket.receive(limited));
  } catch (error) {
    if (error instanceof TimeLimitError && !signal.aborted) return undefined;
    throw error;
  }
}

function acknowledgement(frame: AgentResponse): v.InferOutput<typeof acknowledgementSchema> {
  if (!frame.ok) throw refusal("chat.send", frame);
  const parsed = v.safeParse(acknowledgementSchema, frame.payload ?? {});
  if (!parsed.success)
    throw new DriverError("the agent acknowledged chat.send with an unknown status", { nothingSent: false });
  const { status, summary = "no reason given" } = parsed.output;
  if (status === "error") throw new DriverError(`the agent's run failed: ${oneLine(summary)}`, { nothingSent: false });
  return parsed.output;
}

function chatOf({ event, payload }: AgentFrame & { type: "event" }, runs: ReadonlySet<string>): Chat | undefined {
  if (event !== "chat") return undefined;
  const parsed = v.safeParse(chatSchema, payload);
  return parsed.success && runs.has(parsed.output.runId) ? parsed.output : undefined;
}

/** Returns whether the answer is complete. @throws DriverError if the run has failed */
function takeIn(chat: Chat, answer: BoundedText): boolean {
  const { state, deltaText } = chat;
  const whole = chatMessageText(chat.message);
  switch (state) {
    case "delta":
      // If there is a message, it is the answer so far.
      if (whole !== undefined) answer.replace(whole);
      else if (chat.replace === true) answer.replace(deltaText ?? "");
      else answer.append(deltaText ?? "");
      return false;
    case "final":
      if (whole !== undefined) answer.replace(whole);
      return true;
    case "error":
    case "aborted": {
      const why = oneLine(chat.errorMessage ?? chat.stopReason ?? "no reason given");
      throw new DriverError(`the agent's run ${state === "error" ? "failed" : "was aborted"}: ${why}`, {
        nothingSent: false,
      });
    }
    default:
      return false;
  }
}

function pastAnswer(frame: AgentResponse, runs: ReadonlySet<string>): string {
  if (!frame.ok) throw refusal("chat.history", frame);
  const history = v.safeParse(historySchema, frame.payload);
  const rows = history.success ? history.output.messages : [];
  const row = rows.findLast((candidate) => v.is(answerRowSchema, candidate) && runs.has(candidate.__openclaw.runId));
  const text = chatMessageText(row);
  if (text !== undefined) return text;
  throw new DriverError("the agent has answered this event before, and its history does not contain the answer", {
    nothingSent: false,
  });
}

const messageSchema = v.object({ content: v.union([v.string(), v.array(v.unknown())]) });
const textBlockSchema = v.object({ type: v.literal("text"), text: v.string() });

/**
 * The text of a chat message of the Gateway protocol, whose content is a string or a list of blocks; undefined
 * otherwise.
 */
function chatMessageText(message: unknown): string | undefined {
  const parsed = v.safeParse(messageSchema, message);
  if (!parsed.success) return undefined;
  const { content } = parsed.output;
  if (typeof content === "string") return content;
  return content.flatMap((block) => (v.is(textBlockSchema, block) ? [block.text] : [])).join("");
}
