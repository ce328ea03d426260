import type { TriggerPayload } from "../trigger-payload.ts";

/** What a guard says of an event. */
export type Verdict = { readonly allowed: true } | { readonly allowed: false; readonly message: string };

/** Asked before anything is claimed; it denies whenever it cannot say yes, and never throws. */
export type Guard = (payload: TriggerPayload, options: { signal: AbortSignal }) => Promise<Verdict>;
