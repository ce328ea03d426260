import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const repository = join(import.meta.dirname, "..", "..");

/** The npm package `oidc-provider`, on a free port of this machine. */
export interface OidcProvider {
  readonly issuer: string;
  /** A token for a program, by its client credentials. `urn:tenancy` stands for the audience `tenancy-api`. */
  tokenFor(program: string, resource?: string): Promise<string>;
  /**
   * Logs an account in as a person does in a browser of its own, from the address that a client has sent it to.
   *
   * @returns the address that the provider sends the browser back to
   */
  signIn(account: string, address: string): Promise<string>;
  /**
   * Confirms the code of a device as a person does in a browser.
   *
   * @param address with the code
   */
  confirm(account: string, address: string): Promise<void>;
  /** Replaces the signing keys while it runs. */
  rotate(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a provider on Node.
 *
 * @param claims of each account and program, by its id
 * @param options.accessSeconds how long an access token is valid
 * @param options.redirectUris of the client `dashboard`. @default there is no such client
 */
export async function startOidcProvider(
  claims: Record<string, object>,
  { redirectUris = [], accessSeconds = 300 }: { redirectUris?: string[]; accessSeconds?: number } = {},
): Promise<OidcProvider> {
  const child = spawn("node", ["--import", "tsx", join(import.meta.dirname, "provider-program.ts")], {
    cwd: repository,
    env: {
      PATH: process.env.PATH,
      CLAIMS: JSON.stringify(claims),
      REDIRECT_URIS: JSON.stringify(redirectUris),
      ACCESS_SECONDS: String(accessSeconds),
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const printed: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => printed.push(line));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exited = once(child, "exit");
  /** The next of our lines; the package prints warnings too. */
  async function nextLine(): Promise<Record<string, string>> {
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error(`the provider has ended: ${printed.join("\n")}`);
      if (value.startsWith("{")) return JSON.parse(value);
    }
  }
  const { issuer = "" } = await nextLine();
  return {
    issuer,
    async tokenFor(program, resource = "urn:tenancy") {
      const response = await fetch(`${issuer}/token`, {
        method: "POST",
        headers: { authorization: `Basic ${btoa(`${program}:${encodeURIComponent(`secret of ${program}`)}`)}` },
        body: new URLSearchParams({ grant_type: "client_credentials", resource }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`the provider answered ${response.status}: ${text}`);
      return JSON.parse(text).access_token;
    },
    async signIn(account, address) {
      const cookies = new Map<string, string>();
      let url = address;
      for (let step = 0; step < 10; step += 1) {
        const isForm = new URL(url).pathname.startsWith("/interaction/");
        const prompt = isForm && (await visit(url, cookies)).text.includes('value="consent"') ? "consent" : "login";
        const body = new URLSearchParams({ prompt, login: account, password: account });
        const { location, text, status } = await visit(url, cookies, isForm ? body : undefined);
        if (location === null) throw new Error(`the provider answered ${status}: ${text}`);
        url = new URL(location, url).href;
        if (new URL(url).origin !== issuer) return url;
      }
      throw new Error(`the login of ${account} does not end`);
    },
    async confirm(account, address) {
      const cookies = new Map<string, string>();
      let [url, body]: [string, URLSearchParams | undefined] = [address, undefined];
      for (let step = 0; step < 15; step += 1) {
        const { location, text, status } = await visit(url, cookies, body);
        if (text.includes("Sign-in Success")) return;
        if (location === null && status !== 200) throw new Error(`the provider answered ${status}: ${text}`);
        const action = /<form[^>]* action="([^"]+)"/.exec(text)?.[1];
        url = new URL(location ?? action ?? "", url).href;
        const inputs = [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
        const hidden = inputs.map(([, name = "", value = ""]) => [name, value] as [string, string]);
        body =
          location === null ? new URLSearchParams([...hidden, ["login", account], ["password", account]]) : undefined;
      }
      throw new Error(`the login of ${account} does not end`);
    },
    async rotate() {
      child.stdin.write("rotate\n");
      await nextLine();
    },
    async stop() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

async function visit(url: string, cookies: Map<string, string>, body?: URLSearchParams) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const response = await fetch(url, {
    redirect: "manual",
    headers: { cookie },
    ...(body !== undefined && { method: "POST", body }),
  });
  for (const header of response.headers.getSetCookie()) {
    const [pair = ""] = header.split(";");
    cookies.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
  }
  return { status: response.status, location: response.headers.get("location"), text: await response.text() };
}
