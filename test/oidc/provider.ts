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
  /** Replaces the signing keys while it runs. */
  rotate(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a provider on Node.
 *
 * @param claims of each account and program, by its id
 * @param redirectUris of the client `dashboard`. @default there is no such client
 */
export async function startOidcProvider(
  claims: Record<string, object>,
  { redirectUris = [] }: { redirectUris?: string[] } = {},
): Promise<OidcProvider> {
  const child = spawn("node", ["--import", "tsx", join(import.meta.dirname, "provider-program.ts")], {
    cwd: repository,
    env: { PATH: process.env.PATH, CLAIMS: JSON.stringify(claims), REDIRECT_URIS: JSON.stringify(redirectUris) },
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
