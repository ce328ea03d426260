import type { AgentEnd } from "./agent-server.ts";

export const NONCE = "5c0a";
export const CHALLENGE = {
  type: "event",
  event: "connect.challenge",
  payload: { nonce: NONCE, ts: 1_700_000_000_000 },
};

/** A request of the Gateway protocol. */
export interface ControlRequest {
  readonly type: "req";
  readonly id: string;
  readonly method: string;
  readonly params: Record<string, unknown>;
}

export async function hearRequest(agent: AgentEnd): Promise<ControlRequest> {
  return (await agent.hear()) as unknown as ControlRequest;
}

/** Greets as OpenClaw does, and returns what `connect` asked. */
export async function greet(agent: AgentEnd): Promise<ControlRequest> {
  agent.say(CHALLENGE);
  const request = await hearRequest(agent);
  agent.say({ type: "res", id: request.id, ok: true, payload: { type: "hello-ok", protocol: 4 } });
  return request;
}

/** A `chat` event. */
export function chat(runId: string, state: string, more: object = {}): object {
  return { type: "event", event: "chat", payload: { runId, sessionKey: "agent:main:dave", seq: 1, state, ...more } };
}

/** A message of the assistant. */
export function said(text: string): object {
  return { message: { role: "assistant", content: [{ type: "text", text }], timestamp: 1 } };
}
