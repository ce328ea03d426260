/** What goes wrong with a call. */
export type FaultKind =
  /** The answer is another one; what was asked for is not done. */
  | { readonly kind: "answer"; readonly status: number; readonly body: string }
  /** The connection ends, before what was asked for is done or after it. */
  | { readonly kind: "drop"; readonly done: boolean }
  /** No byte comes any more. */
  | { readonly kind: "stall"; readonly done: boolean }
  /** The answer comes late, after what was asked for is done. */
  | { readonly kind: "slow"; readonly delayMs: number };

export interface Fault {
  /** `getUpdates`, `sendMessage`, … */
  readonly method: string;
  /** How many calls it befalls. @default 1 */
  readonly times?: number;
  /** Which calls; all of the method unless told. */
  readonly when?: (parameters: Record<string, unknown>) => boolean;
  readonly fault: FaultKind;
}

/** An error as the bot API words it (https://core.telegram.org/bots/api#making-requests). */
export function errorAnswer(code: number, description: string, parameters?: object): FaultKind {
  const body = { ok: false, error_code: code, description, ...(parameters !== undefined && { parameters }) };
  return { kind: "answer", status: code, body: JSON.stringify(body) };
}

/** 429 with `retry_after`, in seconds. */
export function tooMany(seconds: number): FaultKind {
  return errorAnswer(429, `Too Many Requests: retry after ${seconds}`, { retry_after: seconds });
}
