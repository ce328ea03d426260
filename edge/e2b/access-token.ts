import { createHmac, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import type { ClaimKey } from "../../crds/claims/claim-key.ts";
import type { Clock } from "../../crds/client/clock.ts";
import { type Actor, root } from "../access/actor.ts";
import type { Keys } from "../access/key-store.ts";
import { tokenEnd } from "../access/token-ref.ts";
import type { Tokens } from "../access/tokens.ts";

/** For whom an access token is. */
export type TokenHolder = Pick<Actor, "kind" | "id" | "ref">;

/** The tokens with which E2B's SDKs reach one sandbox. */
export interface AccessTokens {
  /**
   * The token of an actor for a sandbox: always the same text, which stays valid while the sandbox is paused. That of a
   * ServiceAccount changes every 5 minutes, and is valid for 5 to 10 minutes.
   */
  sign(sandbox: ClaimKey, holder: TokenHolder): Promise<string>;
  /** The texts of {@link sign} for an actor that are not over by their own end, the newest first. */
  current(sandbox: ClaimKey, holder: TokenHolder): Promise<string[]>;
  /**
   * Who has a token of a sandbox: an actor of the role `tenant` that reaches this sandbox only, and ends with the key or
   * token that asked for it, for a ServiceAccount after 10 minutes at most. Undefined for any other text.
   *
   * @throws HttpError 503 while the keys may be stale
   */
  read(sandbox: ClaimKey, token: string): Promise<Actor | undefined>;
  /** Derives the key, and returns a `read` that does not wait. */
  reader(): Promise<ReadAccessToken>;
}

/** Who has a token of a sandbox, as {@link AccessTokens.read} finds it. @throws HttpError 503 */
export type ReadAccessToken = (sandbox: ClaimKey, token: string) => Actor | undefined;

const payloadSchema = v.pipe(
  v.string(),
  v.parseJson(),
  v.strictObject({
    v: v.literal(1),
    t: v.string(),
    w: v.string(),
    /** The end, in seconds since the epoch. */
    e: v.optional(v.pipe(v.number(), v.integer())),
    by: v.strictObject({
      kind: v.picklist(["root", "key", "person", "serviceAccount"]),
      id: v.string(),
      ref: v.string(),
    }),
  }),
);

const MAX_LENGTH = 4096;
/** Timers of a runtime count at most 2^31 ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** No part of this process sees the end of a ServiceAccount, so its tokens last two of these at most. */
const ACCOUNT_SECONDS = 300;
const TOKEN = /^([\w-]+)\.([\w-]{43})$/;

/**
 * Tokens are `<base64url of JSON>.<base64url of HMAC-SHA256 over that text>`. The signature is checked before anything
 * is decoded.
 *
 * @param options.signingKey the same on all replicas
 * @param options.keys the keys besides TENANCY_API_KEY. @default there are none
 * @param options.issued tokens that others issue. @default there are none
 */
export function createAccessTokens(options: {
  signingKey: () => Promise<Buffer>;
  keys?: Pick<Keys, "actorWithRef"> | undefined;
  issued?: Pick<Tokens, "holds"> | undefined;
  clock: Clock;
}): AccessTokens {
  const { signingKey, keys, issued, clock } = options;

  function mac(text: string, key: Buffer): string {
    return createHmac("sha256", key).update(text).digest("base64url");
  }

  /** The ends of the tokens of an actor that are valid now, the last first. Undefined: no end of their own. */
  function endsOf({ kind }: TokenHolder): readonly (number | undefined)[] {
    if (kind !== "serviceAccount") return [undefined];
    // All replicas give the same text, by which signatures of files are checked.
    const next = (Math.floor(clock.now() / 1000 / ACCOUNT_SECONDS) + 1) * ACCOUNT_SECONDS;
    return [next + ACCOUNT_SECONDS, next];
  }

  function textOf(
    { tenantId, workloadRef }: ClaimKey,
    { kind, id, ref }: TokenHolder,
    { endsAt, key }: { endsAt: number | undefined; key: Buffer },
  ): string {
    const by = { kind, id, ref };
    const end = endsAt === undefined ? {} : { e: endsAt };
    const payload: v.InferOutput<typeof payloadSchema> = { v: 1, t: tenantId, w: workloadRef, ...end, by };
    const text = Buffer.from(JSON.stringify(payload)).toString("base64url");
    return `${text}.${mac(text, key)}`;
  }

  /** The actor that has asked for a token, as far as it still holds, with the end of what it may do. */
  function holderOf({ by, e }: v.InferOutput<typeof payloadSchema>): Omit<Actor, "role" | "tenants"> | undefined {
    const { kind, id, ref } = by;
    if (kind === "root") return root;
    if (kind === "key") return keys?.actorWithRef(ref);
    const issuedEnd = tokenEnd(ref);
    if (issuedEnd === undefined || issued?.holds(ref) !== true) return undefined;
    if (kind === "serviceAccount" && e === undefined) return undefined;
    const endsAt = Math.min(issuedEnd, e === undefined ? issuedEnd : e * 1000);
    const leftMs = endsAt - clock.now();
    if (leftMs <= 0) return undefined;
    return { kind, id, ref, endsAt, ended: AbortSignal.timeout(Math.min(leftMs, MAX_TIMER_MS)) };
  }

  function readWith(key: Buffer, { tenantId, workloadRef }: ClaimKey, token: string): Actor | undefined {
    const [, text, signature] = (token.length <= MAX_LENGTH ? TOKEN.exec(token) : null) ?? [];
    if (text === undefined || signature === undefined) return undefined;
    // Texts are compared: other texts may decode to the same bytes.
    if (!timingSafeEqual(Buffer.from(mac(text, key)), Buffer.from(signature))) return undefined;
    const { success, output } = v.safeParse(payloadSchema, Buffer.from(text, "base64url").toString("utf8"));
    // Signed by our key but in another format: by a later version, whose replicas run beside this one.
    if (!success || output.t !== tenantId || output.w !== workloadRef) return undefined;
    const holder = holderOf(output);
    if (holder === undefined) return undefined;
    // A key keeps its ref only with its tenants and workloads.
    const { requestsPerSecond } = holder;
    return {
      ...{ kind: holder.kind, id: holder.id, ref: holder.ref, ended: holder.ended, requestsPerSecond },
      ...(holder.endsAt !== undefined && { endsAt: holder.endsAt }),
      ...{ role: "tenant", tenants: [tenantId], workloads: [workloadRef] },
    };
  }

  return {
    async sign(sandbox, holder) {
      const [endsAt] = endsOf(holder);
      return textOf(sandbox, holder, { endsAt, key: await signingKey() });
    },
    async current(sandbox, holder) {
      const key = await signingKey();
      return endsOf(holder).map((endsAt) => textOf(sandbox, holder, { endsAt, key }));
    },
    read: async (sandbox, token) => readWith(await signingKey(), sandbox, token),
    async reader() {
      const key = await signingKey();
      return (sandbox, token) => readWith(key, sandbox, token);
    },
  };
}
