import { createHmac, createSecretKey, type KeyObject, randomBytes, timingSafeEqual } from "node:crypto";
import * as v from "valibot";

/** What a token grants, and until when. */
export interface LinkGrant {
  readonly tenantId: string;
  readonly workload: string;
  /** A port of the workload other than its first. */
  readonly port?: number | undefined;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
  /** The `ref` of the API key that asked for it, and with which it ends. @default TENANCY_API_KEY */
  readonly by?: string;
}

/** A verified grant. */
export interface SignedGrant extends LinkGrant {
  readonly signedBy: KeyObject;
}

/** The purpose of a token: a cookie is not a link, so that it cannot be sent to someone. */
export type TokenPurpose = "link" | "cookie";

export interface LinkTokens {
  /** Undefined without a key to sign with. */
  sign(purpose: TokenPurpose, grant: LinkGrant): string | undefined;
  /**
   * What a token grants now; undefined for one that is invalid, expired or for another purpose. The work is the same
   * for all texts, also without one, so that timing reveals nothing.
   */
  read(purpose: TokenPurpose, text: string | undefined): SignedGrant | undefined;
  /** Whether a grant that was read before is still valid: not expired, and both its keys still in use. */
  holds(grant: SignedGrant): boolean;
}

const payloadSchema = v.pipe(
  v.string(),
  v.parseJson(),
  v.strictObject({
    v: v.literal(1),
    p: v.picklist(["link", "cookie"]),
    t: v.string(),
    w: v.string(),
    port: v.optional(v.number()),
    e: v.number(),
    k: v.optional(v.string()),
  }),
);

/** Used if there is no key, so that the work is the same. */
const decoy = createSecretKey(randomBytes(32));
/** Longer than any token, whose ids have at most 63 characters. */
const MAX_LENGTH = 1024;
const TOKEN = /^([\w-]+)\.([\w-]{43})$/;
const NO_TOKEN = ["", ".".repeat(43)] as const;

/**
 * Tokens are `<base64url of JSON>.<base64url of HMAC-SHA256 over that text>`. The signature is checked over the text as
 * sent, before anything is decoded, and with every key: nothing in a token determines how it is read.
 *
 * @param options.keys newest first, which signs; called at each use
 * @param options.isApiKey whether the API key with that `ref` is valid now; undefined if that is unknown: then nothing is
 * read, and what was read before still holds. @default none is
 */
export function createLinkTokens(options: {
  keys: () => readonly KeyObject[];
  isApiKey?: ((ref: string) => boolean | undefined) | undefined;
  now: () => number;
}): LinkTokens {
  const { keys, isApiKey = () => false, now } = options;

  function mac(key: KeyObject, text: string): string {
    return createHmac("sha256", key).update(text).digest("base64url");
  }

  return {
    sign(purpose, { tenantId, workload, port, expiresAt, by }) {
      const [key] = keys();
      if (key === undefined) return undefined;
      const payload: v.InferOutput<typeof payloadSchema> = {
        v: 1,
        p: purpose,
        t: tenantId,
        w: workload,
        ...(port !== undefined && { port }),
        e: expiresAt,
        ...(by !== undefined && { k: by }),
      };
      const text = Buffer.from(JSON.stringify(payload)).toString("base64url");
      return `${text}.${mac(key, text)}`;
    },
    read(purpose, token = "") {
      const [, text, signature] = (token.length <= MAX_LENGTH ? TOKEN.exec(token) : null) ?? ["", ...NO_TOKEN];
      let signedBy: KeyObject | undefined;
      const usable = keys();
      // Texts are compared: other texts may decode to the same bytes.
      for (const key of usable.length === 0 ? [decoy] : usable) {
        if (isEqual(mac(key, text), signature) && key !== decoy) signedBy = key;
      }
      if (signedBy === undefined) return undefined;
      const payload = v.safeParse(payloadSchema, Buffer.from(text, "base64url").toString("utf8"));
      // Signed by our key but in another format: by a later version, whose replicas run beside this one.
      if (!payload.success) return undefined;
      const { p, t, w, port, e, k } = payload.output;
      if (p !== purpose || e * 1000 <= now() || (k !== undefined && isApiKey(k) !== true)) return undefined;
      const given = { ...(port !== undefined && { port }), ...(k !== undefined && { by: k }) };
      return { tenantId: t, workload: w, ...given, expiresAt: e, signedBy };
    },
    holds({ expiresAt, signedBy, by }) {
      if (expiresAt * 1000 <= now() || (by !== undefined && isApiKey(by) === false)) return false;
      const usable = keys();
      // Each read of the Secret makes its key objects again.
      return usable.includes(signedBy) || usable.some((key) => key.equals(signedBy));
    },
  };
}

/** Of two texts of 43 characters. */
function isEqual(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a, "latin1"), Buffer.from(b, "latin1"));
}
