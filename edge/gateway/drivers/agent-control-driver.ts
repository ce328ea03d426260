import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import { TimeLimitError, withTimeLimit } from "../../../crds/waits.ts";
import { type AgentResponse, type ConnectChallenge, connectParams, parseFrame, refusal } from "./agent-frame.ts";
import { askAgent } from "./ask-agent.ts";
import { type Driver, type DriverCall, DriverError } from "./driver.ts";
import { SocketEndError } from "./json-socket.ts";
import { type Conversation, createSocketDriver, NotReadyError } from "./socket-driver.ts";

/**
 * Identifies the gateway to a server that trusts it instead of a token, as OpenClaw does with `gateway.auth.mode:
 * "trusted-proxy"`. Such a server requires a client address; this one is from a range reserved for documentation.
 * https://www.rfc-editor.org/rfc/rfc5737
 */
const PROXY_HEADERS = { "x-forwarded-user": "tenancy", "x-forwarded-for": "203.0.113.1", "x-forwarded-proto": "http" };

/** Speaks `driver-b`, the Gateway protocol of OpenClaw (docs/reference/drivers.md). */
export function createAgentControlDriver(deps: { clock: Clock }): Driver {
  return createSocketDriver({ path: "/", headers, handshake, ask: askAgent }, deps);
}

function headers({ token }: DriverCall): Record<string, string> {
  return token === undefined ? PROXY_HEADERS : {};
}

/** How long to wait for the challenge: older servers send none. */
const CHALLENGE_MS = 2000;

/** Limits and default of the pause that a starting server requests, as in OpenClaw's own client. */
const STARTING_MS = { least: 100, most: 2000, usual: 500 };
const STARTING_CLOSE_CODE = 1013;

const challengeSchema = v.object({
  nonce: v.pipe(v.string(), v.minLength(1)),
  ts: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
});

/**
 * Waits for the challenge and calls `connect` (OpenClaw Gateway protocol, page "Handshake and roles").
 *
 * @throws NotReadyError while the server is starting
 * @throws DriverError if it refuses
 */
async function handshake(conversation: Conversation): Promise<void> {
  try {
    const challenge = await awaitChallenge(conversation);
    await connect(conversation, challenge);
  } catch (error) {
    if (error instanceof SocketEndError && error.code === STARTING_CLOSE_CODE) {
      throw new NotReadyError(error.message, { retryAfterMs: STARTING_MS.usual });
    }
    throw error;
  }
}

async function awaitChallenge({ socket, clock, signal }: Conversation): Promise<ConnectChallenge | undefined> {
  const limit = { what: "the challenge", ms: CHALLENGE_MS, clock, signal };
  try {
    return await withTimeLimit(limit, async (limited) => {
      for (;;) {
        const frame = parseFrame(await socket.receive(limited));
        if (frame?.type !== "event" || frame.event !== "connect.challenge") continue;
        const challenge = v.safeParse(challengeSchema, frame.payload);
        if (challenge.success) return challenge.output;
        throw new DriverError("the agent sent a malformed connect.challenge", { nothingSent: false });
      }
    });
  } catch (error) {
    if (error instanceof TimeLimitError && !signal.aborted) return undefined;
    throw error;
  }
}

async function connect({ socket, call, signal }: Conversation, challenge: ConnectChallenge | undefined): Promise<void> {
  const id = "connect";
  socket.send({ type: "req", id, method: "connect", params: connectParams({ token: call.token, challenge }) });
  for (;;) {
    const frame = parseFrame(await socket.receive(signal));
    if (frame?.type !== "res" || frame.id !== id) continue;
    if (frame.ok) return;
    throw startingError(frame) ?? refusal("connect", frame);
  }
}

function startingError({ error }: AgentResponse): NotReadyError | undefined {
  if (error?.code !== "UNAVAILABLE" || error.retryable !== true) return undefined;
  const wanted = error.retryAfterMs ?? STARTING_MS.usual;
  return new NotReadyError(`the agent is starting: ${error.message}`, {
    retryAfterMs: Math.min(Math.max(wanted, STARTING_MS.least), STARTING_MS.most),
  });
}
