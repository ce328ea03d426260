import type { TriggerPayload } from "../trigger-payload.ts";
import { denied } from "./denied.ts";
import type { Guard, Verdict } from "./guard.ts";

/**
 * Asks the guards in order; the first that denies ends it, and the verdict is its. An aborted signal denies. With no
 * guard at all everything is allowed.
 */
export async function runGuards(
  guards: readonly Guard[],
  payload: TriggerPayload,
  options: { signal: AbortSignal },
): Promise<Verdict> {
  for (const guard of guards) {
    if (options.signal.aborted) return denied(undefined);
    const verdict = await guard(payload, options);
    if (verdict.allowed !== true) return verdict;
  }
  return { allowed: true };
}
