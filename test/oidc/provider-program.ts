// A real OpenID provider, in a process of its own: node --import tsx test/oidc/provider-program.ts
// Prints its issuer. A line on standard input is a command: `rotate` replaces its signing keys.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { exportJWK, generateKeyPair } from "jose";
// @ts-expect-error it has no types of its own
import Provider from "oidc-provider";

/** Accounts and programs by their id, with the claims of their tokens. The password of an account is its id. */
const claims: Record<string, object> = JSON.parse(process.env.CLAIMS ?? "{}");
/** Where the provider may send browsers back to. */
const redirectUris: string[] = JSON.parse(process.env.REDIRECT_URIS ?? "[]");
const ACCESS_SECONDS = Number(process.env.ACCESS_SECONDS ?? 300);
const AUDIENCE = process.env.AUDIENCE ?? "tenancy-api";

let rotations = 0;
let listener: (...parameters: unknown[]) => void;
const server = createServer((request, response) => listener(request, response));
// Another name than the edge's, so that its pages are another site to a browser.
server.listen(0, "localhost", async () => {
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  listener = await start(issuer);
  process.stdout.write(`${JSON.stringify({ issuer })}\n`);
  createInterface({ input: process.stdin })
    .on("line", async (line) => {
      if (line === "rotate") listener = await start(issuer);
      process.stdout.write(`${JSON.stringify({ done: line })}\n`);
    })
    // Ends with the test, also one that is killed.
    .on("close", () => process.exit(0));
});

async function start(issuer: string) {
  rotations += 1;
  const { privateKey } = await generateKeyPair("RS256", { extractable: true });
  const key = { ...(await exportJWK(privateKey)), kid: `key-${rotations}`, alg: "RS256", use: "sig" };
  const programs = Object.keys(claims).map((id) => ({
    client_id: id,
    client_secret: `secret of ${id}`,
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
  }));
  const dashboard = {
    client_id: "dashboard",
    client_secret: "secret of the dashboard",
    grant_types: ["authorization_code"],
    redirect_uris: redirectUris,
  };
  const commandLine = {
    client_id: "cli",
    token_endpoint_auth_method: "none",
    grant_types: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
    redirect_uris: [],
    response_types: [],
  };
  const provider = new Provider(issuer, {
    clients: [...programs, commandLine, ...(redirectUris.length > 0 ? [dashboard] : [])],
    jwks: { keys: [key] },
    cookies: { keys: ["not a secret"] },
    claims: { openid: ["sub", "groups", "tenants"] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id, ...claims[id] }) }),
    // Of a person's token those of the person.
    extraTokenClaims: (_: unknown, { clientId, accountId }: { clientId: string; accountId?: string }) =>
      claims[accountId ?? clientId],
    issueRefreshToken: (_: unknown, { clientId }: { clientId: string }) => clientId === "cli",
    features: {
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_: unknown, audience: string) => ({
          scope: "",
          audience: audience === "urn:tenancy" ? AUDIENCE : audience,
          accessTokenFormat: "jwt",
          accessTokenTTL: ACCESS_SECONDS,
        }),
      },
    },
  });
  return provider.callback();
}
