import * as v from "valibot";
import type { Clock } from "../../crds/client/clock.ts";
import { describeError } from "../../crds/describe-error.ts";
import { parseForeignJson } from "../../crds/foreign-json.ts";
import type { Log } from "../../crds/log.ts";
import { isTenantId } from "../../crds/names.ts";
import type { SecretReference } from "../../crds/schema/schema.ts";
import type { TriggerGuard } from "../../crds/trigger.ts";
import { withTimeLimit } from "../../crds/waits.ts";
import { oneLine, type TriggerPayload } from "./drivers/driver.ts";
import { createPoster, type Post } from "./post-json.ts";

export type Verdict = { readonly allowed: true } | { readonly allowed: false; readonly message: string };

/** Called before the claim; denies whenever it cannot decide, and never throws. */
export type Guard = (payload: TriggerPayload, options: { signal: AbortSignal }) => Promise<Verdict>;

export interface GuardDeps {
  readonly clock: Clock;
  /** Receives why a guard denied without a decision; the event's source does not learn it. */
  readonly log: Log;
  /** Reads the value of a header. @throws if the trigger may not or cannot read it */
  readonly readSecret: (ref: SecretReference, options: { signal: AbortSignal }) => Promise<string>;
}

/** Makes the guard of `spec.guards[…]`. A guard of an unknown type or with an invalid config denies everything. */
export function guardFor(guard: TriggerGuard, deps: GuardDeps): Guard {
  const ask = create(guard, deps);
  return async (payload, options) => {
    try {
      return await ask(payload, options);
    } catch (error) {
      deps.log.error({ trigger: payload.trigger, guard: guard.type, error: describeError(error) }, "guard failed");
      return denied(guard.config);
    }
  };
}

/**
 * Asks the guards in order; the first denial is the verdict. An aborted signal denies. Without guards everything is
 * allowed.
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

/**
 * The verdict of a guard that does not allow an event. Its message is the configured `denyMessage`, the guard's own
 * message for the event's source, or a default.
 *
 * @param said is put on one line and cut at 500 characters
 */
export function denied(config: TriggerGuard["config"] | undefined, said?: string): Verdict & { allowed: false } {
  return { allowed: false, message: config?.denyMessage || oneLine(said ?? "") || "not allowed" };
}

function create({ type, config }: TriggerGuard, deps: GuardDeps): Guard {
  switch (type) {
    case "allowlist":
      return createAllowlistGuard(config, deps);
    case "api":
      return createApiGuard(config, deps);
    default:
      return refuseAll(type satisfies never, { config, ...deps });
  }
}

function refuseAll(type: string, { config, log }: GuardDeps & Pick<TriggerGuard, "config">): Guard {
  return async ({ trigger }) => {
    log.warn({ trigger, guard: type }, "guard type unknown, denied");
    return denied(config);
  };
}

/** Allows only the tenants of `tenantIds`, ignoring case. */
function createAllowlistGuard(config: TriggerGuard["config"], { log }: Pick<GuardDeps, "log">): Guard {
  const tenantIds: unknown = config?.tenantIds;
  if (!Array.isArray(tenantIds) || !tenantIds.every((id) => typeof id === "string")) {
    return async ({ trigger }) => {
      log.warn({ trigger }, "allowlist guard config invalid, denied");
      return denied(config);
    };
  }
  const allowed = new Set(tenantIds.map((id) => id.toLowerCase()));
  return async ({ tenantId }) => (allowed.has(tenantId.toLowerCase()) ? { allowed: true } : denied(config));
}

/**
 * Makes a function that returns a tenant's spelling in the allowlists, which ignore case: each spelling would otherwise
 * be a tenant of its own, with its own files. The first list that contains the tenant defines the spelling.
 *
 * @returns a function that returns an id unchanged if no list contains it
 */
export function createListedTenant(guards: readonly TriggerGuard[]): (tenantId: string) => string {
  const listed = new Set<string>();
  const spellings = new Map<string, string>();
  for (const { type, config } of guards) {
    const tenantIds: unknown = type === "allowlist" ? config?.tenantIds : undefined;
    for (const id of Array.isArray(tenantIds) ? tenantIds : []) {
      if (!isTenantId(id)) continue;
      listed.add(id);
      const key = id.toLowerCase();
      if (!spellings.has(key)) spellings.set(key, id);
    }
  }
  return (tenantId) => (listed.has(tenantId) ? tenantId : (spellings.get(tenantId.toLowerCase()) ?? tenantId));
}

/** From the DNS lookup to the last byte of the response. */
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
 * Sends a POST of `{tenantId, source}` to `config.url` and allows only on a 2xx with `{"ok":true}`: any other response,
 * or none within 2 s, denies. Redirects are not followed.
 */
function createApiGuard(config: TriggerGuard["config"], { clock, log, readSecret }: GuardDeps): Guard {
  const problem = configProblem(config);
  if (problem !== undefined) {
    return async ({ trigger }) => {
      log.warn({ trigger, problem }, "api guard config invalid, denied");
      return denied(config);
    };
  }
  const url = new URL(config.url ?? "");
  const post = createPoster({ clock });
  const fromSecrets = Object.entries(config.headerSecretRefs ?? {});
  async function headersNow(signal: AbortSignal): Promise<Record<string, string>> {
    const read = fromSecrets.map(async ([name, ref]) => {
      // `echo` adds a line break to a Secret that is made by hand.
      return [name, (await readSecret(ref, { signal })).replace(/\r?\n$/, "")] as const;
    });
    return { ...config.headers, ...Object.fromEntries(await Promise.all(read)) };
  }
  return async ({ trigger, tenantId, source }, { signal }) => {
    let answer: v.InferOutput<typeof answerSchema>;
    try {
      const body = JSON.stringify({ tenantId, source });
      answer = await withTimeLimit({ what: "the guard's answer", ms: TIMEOUT_MS, clock, signal }, async (limited) =>
        ask(post, { url, headers: await headersNow(limited), body, signal: limited }),
      );
    } catch (error) {
      if (!signal.aborted) log.warn({ trigger, error: describeError(error) }, "api guard failed, denied");
      return denied(config);
    }
    return answer.ok ? { allowed: true } : denied(config, answer.message);
  };
}

/** @throws Error if there is no verdict */
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
  return v.parse(answerSchema, parseForeignJson(utf8.decode(body), { characters: MAX_ANSWER_BYTES }));
}

function configProblem(config: TriggerGuard["config"] | undefined): string | undefined {
  if (typeof config?.url !== "string" || !URL.canParse(config.url)) return "url: must be a URL";
  const { protocol, username, password } = new URL(config.url);
  if (protocol !== "http:" && protocol !== "https:") return "url: must use http or https";
  if (username !== "" || password !== "") return "url: must not contain a user or password; use headers";
  const { headers = {}, headerSecretRefs = {} } = config;
  const names = [...Object.keys(headers), ...Object.keys(headerSecretRefs)];
  const framing = names.find((name) => FRAMING.includes(name.toLowerCase()));
  if (framing !== undefined) return `headers: must not set ${framing}`;
  const lower = names.map((name) => name.toLowerCase());
  const twice = lower.find((name, index) => lower.indexOf(name) !== index);
  return twice === undefined ? undefined : `headers: ${twice} is set twice`;
}
