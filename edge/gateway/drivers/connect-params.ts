import { deviceIdentityOf } from "./device-identity.ts";

/** What the server opened with. */
export interface ConnectChallenge {
  readonly nonce: string;
  /** Milliseconds since the epoch, by the server's clock. */
  readonly ts: number;
}

/** Of OpenClaw's registry: the client that is a program of the operator's. */
const CLIENT = { id: "gateway-client", version: "1", platform: "linux", mode: "backend" } as const;
const ROLE = "operator";
const SCOPES = ["operator.read", "operator.write"];

/**
 * The params of `connect`, as the page "Handshake and roles" of the OpenClaw Gateway protocol has them. With a token, a device signs the
 * challenge: from another host, a connection without one is granted no scopes.
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

function deviceProof(token: string, { nonce, ts }: ConnectChallenge): Record<string, unknown> {
  const device = deviceIdentityOf(token);
  const { id, mode, platform } = CLIENT;
  const deviceFamily = "";
  const signed = ["v3", device.id, id, mode, ROLE, SCOPES.join(","), ts, token, nonce, platform, deviceFamily].join(
    "|",
  );
  return { id: device.id, publicKey: device.publicKey, signature: device.sign(signed), signedAt: ts, nonce };
}
