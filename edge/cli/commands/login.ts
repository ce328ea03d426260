import manifest from "../../../package.json" with { type: "json" };
import { ApiError, createClient } from "../../client/index.ts";
import { type Command, type Input, UsageError } from "../command.ts";
import type { Io } from "../io.ts";
import { logInByDevice, type OidcLogin, type OidcProvider } from "../oidc.ts";
import { configPath, type Logins, readKey, readLogins, writeLogins } from "../settings.ts";

/** Without offline_access most providers give no refresh token. */
const DEFAULT_SCOPE = "openid offline_access";

export const login: Command = {
  name: "login",
  summary: "Store the address of the API and a key for it, once the API has accepted the key",
  needsKey: false,
  options: {
    oidc: { kind: "flag", help: "Log in at an OpenID provider, by a code that you confirm in a browser" },
    issuer: { kind: "value", value: "URL", help: "The provider; the last one for this address if absent" },
    "client-id": { kind: "value", value: "ID", help: "This program's public client at the provider" },
    scope: { kind: "value", value: "SCOPES", help: `What to ask for (${DEFAULT_SCOPE})` },
    resource: { kind: "value", value: "URI", help: "The API at the provider, if it needs one to make tokens for it" },
  },
  notes: [
    "The key is read from --key-file or standard input, never from an argument, which other users can see.",
    "$XDG_CONFIG_HOME/tenancy/config.json has it, readable only by you. It is sent to no other address.",
    "With --oidc, each command gets a new token when the last one is about to end.",
  ],
  examples: [
    "login --url https://tenancy.example.com --key-file key.txt",
    "pass tenancy | tenancy login",
    "login --url https://tenancy.example.com --oidc --issuer https://login.example.com --client-id tenancy-cli",
  ],
  async run(input, { settings: { url, key: given }, io, print, signal }) {
    const accept = async (key: string) => {
      // All keys may read it, and it needs one.
      const response = await createClient({ url, key }).send("GET /api/v1/openapi.json", { signal });
      await response.body?.cancel();
    };
    if (input.flag("oidc")) {
      if (input.value("key-file") !== undefined) throw new UsageError("Give one of --oidc and --key-file");
      const provider = providerOf(input, readLogins(io.env).oidc[url]);
      const made = await logInByDevice(provider, { show: (line) => print.note(line), signal });
      await accept(made.accessToken);
      const { keys, oidc } = withoutLogin(url, io.env);
      const path = writeLogins({ url, keys, oidc: { ...oidc, [url]: made } }, io.env);
      await print.note(`logged in to ${url} by ${made.issuer}; the login is in ${path}`);
      return 0;
    }
    const unused = ["issuer", "client-id", "scope", "resource"].find((name) => input.value(name) !== undefined);
    if (unused !== undefined) throw new UsageError(`--${unused} is only for --oidc`);
    const isGiven = input.value("key-file") !== undefined;
    if (!isGiven && io.stdin.isTTY) await print.note(`Paste the key for ${url}, then press Enter and Ctrl-D:`);
    const key = isGiven && given !== undefined ? given : await readKey("-", io);
    await accept(key);
    const { keys, oidc } = withoutLogin(url, io.env);
    const path = writeLogins({ url, keys: { ...keys, [url]: key }, oidc }, io.env);
    await print.note(`logged in to ${url}; the key is in ${path}`);
    return 0;
  },
};

/** What is stored for other addresses. */
function withoutLogin(url: string, env: Io["env"]): Pick<Logins, "keys" | "oidc"> {
  const { keys, oidc } = readLogins(env);
  const { [url]: _key, ...otherKeys } = keys;
  const { [url]: _login, ...otherLogins } = oidc;
  return { keys: otherKeys, oidc: otherLogins };
}

/** @throws UsageError without an issuer and a client */
function providerOf(input: Input, last: OidcLogin | undefined): OidcProvider {
  const issuer = input.value("issuer") ?? last?.issuer;
  // A client is one of a provider.
  const known = issuer === last?.issuer ? last : undefined;
  const clientId = input.value("client-id") ?? known?.clientId;
  if (issuer === undefined || clientId === undefined) {
    const missing = issuer === undefined ? "--issuer" : "--client-id";
    throw new UsageError(`login --oidc needs ${missing}, the first time for an address`);
  }
  const resource = input.value("resource") ?? known?.resource;
  const scope = input.value("scope") ?? known?.scope ?? DEFAULT_SCOPE;
  return { issuer, clientId, scope, ...(resource !== undefined && { resource }) };
}

export const logout: Command = {
  name: "logout",
  summary: "Forget the stored key for the address of the API",
  needsKey: false,
  examples: ["logout"],
  async run(_, { settings: { url }, io, print }) {
    const { url: last, keys, oidc } = readLogins(io.env);
    const login = oidc[url];
    if (keys[url] === undefined && login === undefined)
      throw new ApiError(`${configPath(io.env)} has no key for ${url}`, { status: 404 });
    const left = { ...(last !== undefined && last !== url && { url: last }), ...withoutLogin(url, io.env) };
    const path = writeLogins(left, io.env);
    const stays =
      login === undefined
        ? "the key stays valid until it is deleted or ends"
        : `the tokens stay valid until they end, or are revoked at ${login.issuer}`;
    await print.note(`removed the login for ${url} from ${path}; ${stays}`);
    return 0;
  },
};

export const version: Command = {
  name: "version",
  summary: "Print the version of this program",
  needsKey: false,
  examples: ["version"],
  async run(_, { print }) {
    const { version } = manifest;
    await print.event({ version }, { text: () => `tenancy ${version}`, name: () => version });
    return 0;
  },
};
