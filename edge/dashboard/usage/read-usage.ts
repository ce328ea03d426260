import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { CallError, send } from "../api/call.ts";

/** A page of sums, and the key of its last one if there are more. */
export interface UsagePage {
  readonly sums: readonly ApiTypes["Usage"][];
  readonly next: string | undefined;
}

const MOST_TRIES = 4;

/**
 * Reads a page of sums. The API reads for a tenant's keys one after the other, and answers 429 until it is their turn:
 * wait for as long as it says.
 *
 * @param query of `GET /usage`
 * @throws CallError with the API's words; the signal's reason
 */
export async function readUsage(query: URLSearchParams, signal: AbortSignal): Promise<UsagePage> {
  for (let tries = 1; ; tries += 1) {
    try {
      const response = await send("GET", `/usage?${query}`, { signal });
      return {
        sums: (await response.json()) as ApiTypes["Usage"][],
        next: response.headers.get("x-tenancy-next") ?? undefined,
      };
    } catch (error) {
      if (!(error instanceof CallError) || error.retryAfterMs === undefined || tries === MOST_TRIES) throw error;
      await pause(error.retryAfterMs, signal);
    }
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
