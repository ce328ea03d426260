import * as v from "valibot";
import { describeError } from "../../../crds/describe-error.ts";
import type { TriggerGuard } from "../../../crds/trigger.ts";
import { withTimeLimit } from "../../../crds/waits.ts";
import { createPoster, type Post } from "../post-json.ts";
import { denied, type Guard, type GuardDeps } from "./guard.ts";

/** From the name look-up to the last byte of the answer. */
const TIMEOUT_MS = 2000;
const MAX_ANSWER_BYTES = 64 * 1024;

/** Headers that frame the request or end the connection: a config must not set them. */
const FRAMING = ["connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"];

const utf8 = new TextDecoder("utf-8", { fatal: true });
const answerSchema = v.variant("ok", [
  v.object({ ok: v.literal(true) }),
  v.object({ ok: v.literal(false), message: v.optional(v.string()) }),
]);

/**
 * Asks `config.url` with a POST of `{tenantId, source}` and allows on a 2xx of `{"ok":true}` alone: whatever else comes
 * back, or does not come back within 2 s, denies. Redirects are not followed.
 */
export function createApiGuard(config: TriggerGuard["config"], { clock, log }: GuardDeps): Guard {
  const problem = configProblem(config);
  if (problem !== undefined) {
    return async ({ trigger }) => {
      log.warn({ trigger, problem }, "api guard config invalid, denied");
      return denied(config);
    };
  }
  const url = new URL(config.url ?? "");
  const post = createPoster({ clock });
  return async ({ trigger, tenantId, source }, { signal }) => {
    let answer: v.InferOutput<typeof answerSchema>;
    try {
      const body = JSON.stringify({ tenantId, source });
      answer = await withTimeLimit({ what: "the guard's answer", ms: TIMEOUT_MS, clock, signal }, (limited) =>
        ask(post, { url, headers: config.headers ?? {}, body, signal: limited }),
      );
    } catch (error) {
      if (!signal.aborted) log.warn({ trigger, error: describeError(error) }, "api guard failed, denied");
      return denied(config);
    }
    return answer.ok ? { allowed: true } : denied(config, answer.message);
  };
}

/** @throws Error when there is no verdict */
async function ask(
  post: Post,
  question: { url: URL; headers: Record<string, string>; body: string; signal: AbortSignal },
): Promise<v.InferOutput<typeof answerSchema>> {
  const { body } = await post({
    ...question,
    maxReplyBytes: MAX_ANSWER_BYTES,
    checkStatus(status) {
      if (status < 200 || status > 299) throw new Error(`it answered with status ${status}`);
    },
  });
  return v.parse(answerSchema, JSON.parse(utf8.decode(body)));
}

function configProblem(config: TriggerGuard["config"] | undefined): string | undefined {
  if (typeof config?.url !== "string" || !URL.canParse(config.url)) return "url: must be an address";
  const { protocol, username, password } = new URL(config.url);
  if (protocol !== "http:" && protocol !== "https:") return "url: must be of http or https";
  if (username !== "" || password !== "") return "url: must hold no user and password; use headers";
  const framing = Object.keys(config.headers ?? {}).find((name) => FRAMING.includes(name.toLowerCase()));
  return framing === undefined ? undefined : `headers: must not set ${framing}`;
}
