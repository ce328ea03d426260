import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import { type Driver, DriverError, oneLine } from "./driver.ts";
import type { JsonMessage } from "./json-socket.ts";
import { type Conversation, createBoundedText, createSocketDriver, promptText } from "./socket-driver.ts";

const messageSchema = v.variant("type", [
  v.object({ type: v.literal("ready") }),
  v.object({ type: v.literal("output"), text: v.string() }),
  v.object({ type: v.literal("idle") }),
  v.object({ type: v.literal("exit"), code: v.nullable(v.number()), stderr: v.optional(v.string(), "") }),
  v.object({ type: v.literal("error"), message: v.string() }),
]);
type AgentMessage = v.InferOutput<typeof messageSchema>;
const TYPES = ["ready", "output", "idle", "exit", "error"];

/** Speaks `driver-a`, the agent bridge protocol (docs/reference/drivers.md). */
export function createAgentBridgeDriver(deps: { clock: Clock }): Driver {
  return createSocketDriver({ path: "/ws", handshake, ask }, deps);
}

/** Skips what an agent prints at its start, such as a banner. */
async function handshake({ socket, call, signal }: Conversation): Promise<void> {
  socket.send({ type: "init", tenantId: call.payload.tenantId });
  for (;;) {
    const message = parse(await socket.receive(signal));
    if (message?.type === "ready") return;
    if (message?.type === "exit" || message?.type === "error") throw ended(message);
  }
}

async function ask({ socket, call, signal }: Conversation): Promise<string> {
  const answer = createBoundedText();
  socket.send({ type: "prompt", text: promptText(call.payload) });
  for (;;) {
    const message = parse(await socket.receive(signal));
    switch (message?.type) {
      case "output":
        answer.append(message.text);
        break;
      case "idle":
        return answer.toString();
      case "exit":
        if (message.code === 0) return answer.toString();
        throw ended(message);
      case "error":
        throw ended(message);
      default:
        message satisfies undefined | { type: "ready" };
    }
  }
}

/** Returns undefined for a type that a later version of this protocol may add. @throws DriverError */
function parse(message: JsonMessage): AgentMessage | undefined {
  if (typeof message.type === "string" && !TYPES.includes(message.type)) return undefined;
  const parsed = v.safeParse(messageSchema, message);
  if (parsed.success) return parsed.output;
  const type = JSON.stringify(message.type) ?? "nothing";
  throw new DriverError(`the agent sent a malformed message of type ${oneLine(type)}`, { nothingSent: false });
}

function ended(message: AgentMessage & { type: "exit" | "error" }): DriverError {
  const what =
    message.type === "error"
      ? `the agent reports an error: ${oneLine(message.message)}`
      : `the agent exited with code ${message.code ?? "none"}: ${oneLine(message.stderr)}`;
  return new DriverError(what, { nothingSent: false });
}
