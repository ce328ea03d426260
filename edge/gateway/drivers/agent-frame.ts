import { createHash, createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from "node:crypto";
import * as v from "valibot";
import { DriverError, oneLine } from "./driver.ts";
import type { JsonMessage } from "./json-socket.ts";

const errorSchema = v.object({
  code: v.string(),
  message: v.string(),
  details: v.optional(v.unknown()),
  retryable: v.optional(v.boolean()),
  retryAfterMs: v.optional(v.number()),
});

const frameSchema = v.variant("type", [
  v.object({ type: v.literal("event"), event: v.string(), payload: v.optional(v.unknown()) }),
  v.object({
    type: v.literal("res"),
    id: v.string(),
    ok: v.boolean(),
    payload: v.optional(v.unknown()),
    error: v.optional(errorSchema),
  }),
]);

/** A frame from the server of the Gateway protocol (OpenClaw, page "Gateway protocol transport"). */
export type AgentFrame = v.InferOutput<typeof frameSchema>;
export type AgentResponse = AgentFrame & { type: "res" };

/** Reads a frame; undefined for a type that a later version may add. @throws DriverError */
export function parseFrame(message: JsonMessage): AgentFrame | undefined {
  if (typeof message.type === "string" && message.type !== "event" && message.type !== "res") return undefined;
  const parsed = v.safeParse(frameSchema, message);
  if (parsed.success) return parsed.output;
  throw new DriverError("the agent sent a malformed frame", { nothingSent: false });
}

/** The error for a refused request. */
export function refusal(what: string, { error }: AgentResponse): DriverError {
  const { code = "no code", message = "no reason given" } = error ?? {};
  return new DriverError(`the agent refused ${what}: ${oneLine(message)} (${oneLine(code)})`, { nothingSent: false });
}

/** The server's first frame. */
export interface ConnectChallenge {
  readonly nonce: string;
  /** Milliseconds since the epoch, by the server's clock. */
  readonly ts: number;
}

/** From OpenClaw's registry: a client that is an operator's program. */
const CLIENT = { id: "gateway-client", version: "1", platform: "linux", mode: "backend" } as const;
const ROLE = "operator";
const SCOPES = ["operator.read", "operator.write"];

/**
 * The params of `connect`, as defined on the page "Handshake and roles" of the OpenClaw Gateway protocol. With a token,
 * a device signs the challenge: a connection from another host without a signature gets no scopes.
 */
export function connectParams(options: {
  token: string | undefined;
  challenge: ConnectChallenge | undefined;
}): Record<string, unknown> {
  const { token, challenge } = options;
  return {
    minProtocol: 3,
    maxProtocol: 4,
    client: { ...CLIENT, displayName: "tenancy" },
    role: ROLE,
    scopes: SCOPES,
    caps: [],
    ...(token !== undefined && { auth: { token } }),
    ...(token !== undefined && challenge !== undefined && { device: deviceProof(token, challenge) }),
  };
}

/** An Ed25519 key by which OpenClaw identifies a client. */
interface DeviceIdentity {
  /** SHA-256 of the public key, in hexadecimal digits. */
  readonly id: string;
  /** The key's 32 bytes in base64url. */
  readonly publicKey: string;
  /** Signs a text; base64url. */
  sign(text: string): string;
}

/** The prefix of the seed of an Ed25519 key in PKCS #8. https://www.rfc-editor.org/rfc/rfc8410#section-7 */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");
const PUBLIC_KEY_BYTES = 32;

/**
 * Derives a device from the Gateway's token, so that every edge, after every start, is the same device and must be
 * approved only once.
 *
 * Follows the page "Auth and device identity" of the OpenClaw Gateway protocol.
 */
export function deviceIdentityOf(token: string): DeviceIdentity {
  const seed = Buffer.from(hkdfSync("sha256", token, "", "tenancy.dev/driver-b/device/1", 32));
  const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: "der", type: "pkcs8" });
  const publicKey = rawPublicKey(privateKey);
  return {
    id: createHash("sha256").update(publicKey).digest("hex"),
    publicKey: publicKey.toString("base64url"),
    sign: (text) => sign(null, Buffer.from(text), privateKey).toString("base64url"),
  };
}

function deviceProof(token: string, { nonce, ts }: ConnectChallenge): Record<string, unknown> {
  const device = deviceIdentityOf(token);
  const { id, mode, platform } = CLIENT;
  const deviceFamily = "";
  const signed = ["v3", device.id, id, mode, ROLE, SCOPES.join(","), ts, token, nonce, platform, deviceFamily].join(
    "|",
  );
  return { id: device.id, publicKey: device.publicKey, signature: device.sign(signed), signedAt: ts, nonce };
}

function rawPublicKey(privateKey: KeyObject): Buffer {
  return createPublicKey(privateKey).export({ type: "spki", format: "der" }).subarray(-PUBLIC_KEY_BYTES);
}
