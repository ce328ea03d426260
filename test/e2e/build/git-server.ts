import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { unpackBuilderPackages } from "../../../scripts/cluster/images/builder-image.ts";
import { openAuthority } from "../../../scripts/cluster/pki/authority.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

/** A repository `app.git` over HTTPS that asks for a token. */
export interface GitServer {
  readonly url: string;
  /** What signed its certificate, as PEM. */
  readonly authority: string;
  /** Puts files on the branch `main`, in the place of those that it has; returns the commit. */
  commit(files: Readonly<Record<string, string>>): Promise<string>;
  close(): Promise<void>;
}

/** Git is that of the builder's image, since the machine may have none. */
export async function startGitServer({ address, token }: { address: string; token: string }): Promise<GitServer> {
  const packages = await unpackBuilderPackages(() => undefined);
  const folder = mkdtempSync(join(tmpdir(), "tenancy-git-"));
  const repository = join(folder, "app.git");
  const libraries = ["lib", "usr/lib"].map((lib) => join(packages, lib, `${gnuName()}-linux-gnu`));
  const identity = { NAME: "test", EMAIL: "test@example.com" };
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    LD_LIBRARY_PATH: libraries.join(":"),
    GIT_EXEC_PATH: join(packages, "usr/lib/git-core"),
    GIT_CONFIG_NOSYSTEM: "1",
    ...Object.fromEntries(
      ["AUTHOR", "COMMITTER"].flatMap((who) =>
        Object.entries(identity).map(([key, value]) => [`GIT_${who}_${key}`, value]),
      ),
    ),
  };
  const command = join(packages, "usr/bin/git");
  const git = (...words: string[]) => runCommand(command, words, { environment: env, folder });
  await git("init", "--quiet", "--template=", "--bare", "--initial-branch=main", repository);
  const authority = await openAuthority(join(folder, "pki"));
  const issued = await authority.issue({
    ...{ fileName: "server", commonName: address, alternativeNames: [address], purpose: "server" },
  });
  const expected = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  const server = createServer({ cert: issued.certificate, key: issued.key }, (request, response) => {
    if (request.headers.authorization === expected) return answer(request, response);
    response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end("no");
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    // The port that builds reach.
    server.listen(443, address, resolve);
  });

  /** By CGI, https://git-scm.com/docs/git-http-backend */
  function answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, search } = new URL(request.url ?? "/", `https://${address}`);
    const backend = spawn(command, ["http-backend"], {
      env: {
        ...env,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"],
        HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      },
      stdio: ["pipe", "pipe", "inherit"],
    });
    request.pipe(backend.stdin);
    const chunks: Buffer[] = [];
    backend.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    backend.once("close", () => {
      const said = Buffer.concat(chunks);
      const end = said.indexOf("\r\n\r\n");
      const headers = said.subarray(0, end).toString("latin1").split("\r\n");
      const fields = new Map(headers.map((line) => line.split(/: */) as [string, string]));
      response.statusCode = Number.parseInt(fields.get("Status") ?? "200", 10);
      for (const [name, value] of fields) if (name !== "Status") response.setHeader(name, value);
      response.end(said.subarray(end + 4));
    });
  }

  return {
    url: `https://${address}/app.git`,
    authority: authority.certificate,
    async commit(files) {
      const tree = mkdtempSync(join(folder, "tree-"));
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(dirname(join(tree, path)), { recursive: true });
        writeFileSync(join(tree, path), text);
      }
      const inTree = (...words: string[]) => git("--git-dir", repository, "--work-tree", tree, ...words);
      await inTree("add", "--all");
      await inTree("commit", "--quiet", "--allow-empty", "-m", "files");
      return (await inTree("rev-parse", "HEAD")).trim();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

function gnuName(): string {
  return process.arch === "arm64" ? "aarch64" : "x86_64";
}
