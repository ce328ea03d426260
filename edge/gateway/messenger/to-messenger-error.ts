import { GrammyError, HttpError } from "grammy/web";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { ForeignAnswer } from "./fetch-answer.ts";
import { MessengerError } from "./messenger-error.ts";
import { withoutToken } from "./without-token.ts";

const MAX_SHOWN = 300;

/** What a call of the bot API threw, as an error without the token, which grammy's own errors hold in address and text. */
export function toMessengerError(error: unknown, call: { method: string; token: string }): MessengerError {
  const { method, token } = call;
  const scrub = (text: string) => withoutToken(text, token).slice(0, MAX_SHOWN);
  if (error instanceof GrammyError) {
    const { error_code: code, parameters } = error;
    const description = scrub(String(error.description));
    return new MessengerError(`${method}: ${description} (${code})`, {
      code,
      description,
      retryAfterMs: seconds(parameters.retry_after),
      migratedTo: parameters.migrate_to_chat_id,
      uncertain: !(code >= 400 && code < 500),
    });
  }
  const inner: unknown = error instanceof HttpError ? error.error : error;
  if (inner instanceof ForeignAnswer) {
    return new MessengerError(`${method}: ${inner.message}`, { code: inner.status, uncertain: true });
  }
  return new MessengerError(`${method}: ${scrub(reasonOf(inner))}`, { uncertain: !isUnsent(inner) });
}

function seconds(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value * 1000 : undefined;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return "no answer";
  const { cause } = error;
  return cause instanceof Error && cause.message !== "" ? cause.message : error.message;
}

function isUnsent(error: unknown): boolean {
  return error instanceof NetworkError && !error.requestWasSent;
}
