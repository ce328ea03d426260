import type { TriggerPayload } from "../trigger-payload.ts";

/** What an agent is asked: what a person wrote, else the event's data as JSON. */
export function promptText({ text, data }: TriggerPayload): string {
  return text ?? JSON.stringify(data ?? null);
}
