import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Link } from "../../client/index.ts";
import { type Command, CommandError } from "../command.ts";
import { numberOf, secondsOf } from "../parse.ts";
import type { Shape } from "../printer.ts";
import { claimKeyOf } from "../where.ts";

const shape: Shape<Link> = {
  columns: [
    ["URL", ({ url }) => url],
    ["EXPIRES", ({ expiresAt }) => expiresAt],
  ],
  name: ({ url }) => url,
};

export const open: Command = {
  name: "open",
  summary: "Open an instance in the browser, by a link at the front door",
  words: "<tenant/workload>",
  ...{ least: 1, most: 2 },
  options: {
    print: { kind: "flag", short: "p", help: "print the link and open nothing" },
    port: { kind: "value", value: "PORT", help: "one of the workload's ports; the first by default" },
    expires: { kind: "value", value: "TIME", help: "how long the link is valid, such as 1h" },
  },
  notes: ["Everyone who has the link reaches the instance until it expires."],
  examples: ["open alice/hello", "open alice/hello --print -o name --expires 1h"],
  async run(input, { client, print, signal }) {
    const { tenant, workload } = claimKeyOf(input.words);
    const [port, expires] = [input.value("port"), input.value("expires")];
    const link = await client.call("POST /api/v1/tenants/{id}/links", {
      path: { id: tenant },
      body: {
        workload,
        ...(port !== undefined && { port: numberOf(port, "--port") }),
        ...(expires !== undefined && { expiresInSeconds: secondsOf(expires, "--expires") }),
      },
      signal,
    });
    if (input.flag("print")) await print.one(link, shape);
    else await openInBrowser(link.url);
    return 0;
  },
};

async function openInBrowser(url: string): Promise<void> {
  // A program of the desktop may do anything with another scheme.
  if (!/^https?:$/.test(new URL(url).protocol)) throw new CommandError(`Cannot open ${url}`, { exitCode: 1 });
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(program, [url], { stdio: "ignore", detached: true });
  await once(child, "spawn").catch((cause: Error) => {
    throw new CommandError(`Cannot run ${program}: ${cause.message}; use --print`, { exitCode: 1, cause });
  });
  child.unref();
}
