/** The slice of `fetch` that the bot API needs: a POST of a JSON text, whose redirects are not followed. */
export type Fetch = (
  url: string,
  init: { readonly body?: unknown; readonly signal?: AbortSignal | null | undefined },
) => Promise<{ readonly status: number; text(): Promise<string> }>;

/** An answer that no server of the bot API gives, but what stands before one may: a gateway's page, a cut body. */
export class ForeignAnswer extends Error {
  override readonly name = "ForeignAnswer";
  readonly status: number;

  constructor(status: number) {
    super(`HTTP ${status}, and no JSON of the bot API`);
    this.status = status;
  }
}

/**
 * Fetches an answer of the bot API, `{ok, result}` or `{ok, error_code, description, parameters}`.
 *
 * @throws ForeignAnswer
 * @throws Error of `fetch`; its text may hold the address
 */
export async function fetchAnswer(fetch: Fetch, url: string, init: RequestInit): Promise<object> {
  const response = await fetch(url, init);
  const text = await response.text();
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new ForeignAnswer(response.status);
  }
  if (typeof answer !== "object" || answer === null || !("ok" in answer)) throw new ForeignAnswer(response.status);
  return answer;
}
