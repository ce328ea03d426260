import type { IncomingEvent, Outcome } from "../../../edge/gateway/adapter.ts";

/** A container's answer of that text. */
export function answered(text: string): Outcome {
  return {
    kind: "answered",
    reply: { status: 200, contentType: "text/plain", body: new TextEncoder().encode(text), text },
  };
}

/** Answers `re: <text>`. */
export function echo(event: IncomingEvent): Promise<Outcome> {
  return Promise.resolve(answered(`re: ${event.text}`));
}
