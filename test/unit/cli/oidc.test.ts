// @runtimes node bun
// tenancy login --oidc, with a real provider.
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import { createTokens, type Tokens } from "../../../edge/access/tokens.ts";
import type { OidcLogin } from "../../../edge/cli/oidc.ts";
import { type OidcProvider, startOidcProvider } from "../../oidc/provider.ts";
import { oidc } from "../access/oidc/fake-issuer.ts";
import { clientEdge } from "../rest-client/client-edge.ts";
import { silentLog } from "../silent-log.ts";
import { type CliOptions, runCli } from "./run-cli.ts";

const test = suite("tenancy login --oidc");
let provider: OidcProvider;
let tokens: Tokens;
let edge: Awaited<ReturnType<typeof clientEdge>>;

test.before(async () => {
  // About to end from the start, so that each command needs another token.
  const accessSeconds = 25;
  provider = await startOidcProvider({ mia: { groups: ["customers"], tenants: ["ann"] } }, { accessSeconds });
  const config = { ...oidc, issuer: provider.issuer };
  tokens = createTokens({ apiKey: "root", oidc: config, clock: systemClock, log: silentLog });
  edge = await clientEdge({ apiKey: "root", requireKey: true, tokens });
});
test.after(async () => {
  await edge?.stop();
  tokens?.close();
  await provider?.stop();
});

const tenancy = (words: string[], options: CliOptions = {}) =>
  runCli(words, { ...options, env: { TENANCY_URL: edge.url, HOME: edge.folder } });
const path = () => join(edge.folder, ".config/tenancy/config.json");
const stored = (): OidcLogin => JSON.parse(readFileSync(path(), "utf8")).oidc[edge.url];
const account = () => ["--issuer", provider.issuer, "--client-id", "cli", "--resource", "urn:tenancy"];

/** Logs in as a person who confirms the code. */
async function logIn(words: string[] = []): Promise<void> {
  let confirmed: Promise<void> | undefined;
  const { exitCode, stderr } = await tenancy(["login", "--oidc", ...words], {
    onStderr(piece) {
      const address = /^Open (\S+) in a browser/.exec(piece)?.[1];
      if (address !== undefined) confirmed = provider.confirm("mia", address);
    },
  });
  await confirmed;
  assert.is(exitCode, 0, stderr);
}

test("a person confirms a code once, and commands run until the login ends at the provider", async () => {
  await logIn(account());
  assert.is(statSync(path()).mode & 0o777, 0o600);
  const first = stored();
  // A refresh token is valid once: of two commands at a time only one may use it.
  for (const { exitCode, stdout, stderr } of await Promise.all(
    Array.from({ length: 4 }, () => tenancy(["ls", "ann", "-o", "name"])),
  ))
    assert.equal([exitCode, String(stdout)], [0, "ann/app\n"], stderr);
  assert.is.not(stored().refreshToken, first.refreshToken);

  const logins = JSON.parse(readFileSync(path(), "utf8"));
  logins.oidc[edge.url].refreshToken = "revoked";
  writeFileSync(path(), JSON.stringify(logins));
  const ended = await tenancy(["ls", "ann"]);
  assert.is(ended.exitCode, 4);
  assert.match(ended.stderr, /The login at http:\S+ has ended .*: run tenancy login --oidc again\n$/);
  // It knows the provider by now.
  await logIn();
  assert.is((await tenancy(["ls", "ann"])).exitCode, 0);
  assert.is((await tenancy(["logout"])).exitCode, 0);
  assert.match((await tenancy(["ls", "ann"])).stderr, "log in with tenancy login");
});

test("a provider without TLS, one that is away and one that does not know the client are told apart", async () => {
  for (const [words, exitCode, says] of [
    [["--issuer", "http://login.example.com", "--client-id", "cli"], 2, /--issuer: .* is not an https URL/],
    [["--issuer", "http://127.0.0.1:1", "--client-id", "cli"], 6, /Cannot use the provider http:\/\/127\.0\.0\.1:1: /],
    [["--issuer", provider.issuer, "--client-id", "none"], 4, /refuses the login: client authentication failed/],
    [["--client-id", "cli"], 2, /login --oidc needs --issuer/],
  ] as const) {
    const { exitCode: code, stderr } = await tenancy(["login", "--oidc", ...words]);
    assert.match(stderr, says);
    assert.is(code, exitCode, stderr);
  }
});

test.run();
