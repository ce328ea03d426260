import { readFileSync, statSync } from "node:fs";
import { ApiError, type Claim, type Client, type Instance, type ListedClaim } from "../../client/index.ts";
import { type Command, CommandError, type Input, UsageError } from "../command.ts";
import { type Io, readAll, withoutLastEnd } from "../io.ts";
import { pairOf, secondsOf } from "../parse.ts";
import type { Shape } from "../printer.ts";
import { claimKeyOf } from "../where.ts";

/** What a claim may bring. */
const MOST_BYTES = 1024 * 1024;
const timeout = (seconds: string) =>
  ({ kind: "value", value: "TIME", help: `how long to wait, such as 90s or 10m; ${seconds} by default` }) as const;

export const claimShape: Shape<Claim> = {
  columns: [
    ["TENANT", ({ tenantId }) => tenantId],
    ["WORKLOAD", ({ workloadRef }) => workloadRef],
    ["PHASE", ({ phase, reason }) => (reason === undefined ? phase : `${phase} (${reason})`)],
    ["INSTANCE", ({ instanceId }) => instanceId],
    ["SOURCE", ({ source }) => source],
    ["ENDPOINT", ({ endpoint }) => endpoint && `${endpoint.host}:${endpoint.port}`],
    ["ZONE", ({ zone }) => zone],
    ["EXPIRES", ({ expiresAt }) => expiresAt],
  ],
  name: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
};

export const claim: Command = {
  name: "claim",
  summary: "Claim a workload for a tenant, and wait until its instance is there",
  words: "<tenant> <workload>",
  ...{ least: 1, most: 2 },
  options: {
    resume: { kind: "optional", value: "VERSION", help: "restore the tenant's files: the newest, or this version" },
    env: { kind: "values", short: "e", value: "NAME=VALUE", help: "a variable of the program; never for secrets" },
    secret: { kind: "values", value: "NAME=-|NAME=@FILE", help: "a secret variable, from standard input or a file" },
    file: { kind: "values", value: "PATH=LOCAL", help: "a file that the program finds, from a file here" },
    label: { kind: "values", value: "NAME=VALUE", help: "a label of its pod" },
    zone: { kind: "value", value: "ZONE", help: "the zone that it should run in, if a pod is there" },
    expires: { kind: "value", value: "TIME", help: "release it after this time, such as 30m or 2h" },
    timeout: timeout("5m"),
  },
  notes: [
    "A claim that exists already is joined. Ctrl-C or a timeout ends the wait, and the claim goes on: release ends it.",
    "A line end at the end of a secret is left out.",
  ],
  examples: ["claim alice hello", "claim alice agent --resume --expires 2h --secret TOKEN=@token.txt"],
  async run(input, { client, io, print, signal }) {
    const { tenant, workload } = claimKeyOf(input.words);
    const body = await claimBody(input, io);
    const waitSeconds = secondsOf(input.value("timeout") ?? "5m", "--timeout");
    const claimed = await client.claim(tenant, workload, body, { waitSeconds, signal });
    await print.one(claimed, claimShape);
    if (claimed.message !== undefined) await print.note(claimed.message);
    return 0;
  },
};

async function claimBody(input: Input, io: Io): Promise<Parameters<Client["claim"]>[2]> {
  const version = input.value("resume");
  const expires = input.value("expires");
  const zone = input.value("zone");
  const pairs = (name: string) => Object.fromEntries(input.values(name).map((text) => pairOf(text, `--${name}`)));
  const body = {
    ...(version !== undefined && { resume: version === "" || { version } }),
    ...(expires !== undefined && { expiresInSeconds: secondsOf(expires, "--expires") }),
    ...(zone !== undefined && { zone }),
    env: pairs("env"),
    labels: pairs("label"),
    secrets: await secretsOf(input.values("secret"), io),
    files: input.values("file").map((text) => fileOf(text)),
  };
  return Object.fromEntries(
    Object.entries(body).filter(([, value]) => typeof value !== "object" || Object.keys(value).length > 0),
  );
}

async function secretsOf(texts: readonly string[], io: Io): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const text of texts) {
    const [name, from] = pairOf(text, "--secret");
    // A value as an argument is shown to all users of the machine.
    if (from !== "-" && !from.startsWith("@"))
      throw new UsageError(`Cannot use --secret ${name}=…: write ${name}=- for standard input, or ${name}=@FILE`);
    if (from === "-" && texts.filter((other) => other.endsWith("=-")).length > 1)
      throw new UsageError("Cannot read two secrets from standard input: use =@FILE for one");
    const bytes = from === "-" ? await readAll(io.stdin, { mostBytes: MOST_BYTES }) : readLocal(from.slice(1));
    secrets[name] = withoutLastEnd(bytes.toString("utf8"));
  }
  return secrets;
}

function fileOf(text: string): { path: string; base64: string; mode?: string } {
  const [path, local] = pairOf(text, "--file");
  const base64 = readLocal(local).toString("base64");
  const isProgram = (statSync(local).mode & 0o100) !== 0;
  return { path, base64, ...(isProgram && { mode: "0755" }) };
}

function readLocal(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new CommandError(`Cannot read ${path}: ${(cause as Error).message}`, { exitCode: 1, cause });
  }
}

/** Calls again after each 504, which says that what was begun goes on. @throws ApiError when the time is up */
async function patiently<Answer>(call: () => Promise<Answer>, limitSeconds: number): Promise<Answer> {
  const from = performance.now();
  for (;;) {
    try {
      return await call();
    } catch (error) {
      const isGoingOn = error instanceof ApiError && error.status === 504;
      if (!isGoingOn || performance.now() - from >= limitSeconds * 1000) throw error;
    }
  }
}

type Released = Awaited<ReturnType<Client["release"]>>;

const releasedShape: Shape<Released & { key: string }> = {
  columns: [
    ["CLAIM", ({ key }) => key],
    ["STATUS", ({ status }) => status],
    ["FILES", ({ files }) => files],
  ],
  name: ({ key }) => key,
};

export const release: Command = {
  name: "release",
  summary: "Release a claim, which saves its files, and wait until its instance is gone",
  words: "<tenant/workload>",
  ...{ least: 1, most: 2 },
  options: {
    "no-wait": { kind: "flag", help: "do not wait until the files are saved and the instance is gone" },
    timeout: timeout("10m"),
  },
  notes: ["Ctrl-C or a timeout ends the wait, and the release goes on."],
  examples: ["release alice/hello"],
  async run(input, { client, print, signal }) {
    const { tenant, workload } = claimKeyOf(input.words);
    const limit = secondsOf(input.value("timeout") ?? "10m", "--timeout");
    const wait = !input.flag("no-wait");
    const path = { id: tenant, workload };
    // A second call must not release a claim that was made since the first one.
    const { uid } = await client.call("GET /api/v1/tenants/{id}/claims/{workload}", { path, signal });
    let calls = 0;
    const released = await patiently(() => {
      calls += 1;
      return client.release(tenant, workload, { wait, uid, signal });
    }, limit).catch((error: unknown) => {
      // It came to its end between two calls.
      const isGone = error instanceof ApiError && (error.status === 404 || error.status === 409);
      if (calls > 1 && isGone) return { status: "released", tenantId: tenant } as const;
      throw error;
    });
    await print.one({ ...released, key: `${tenant}/${workload}` }, releasedShape);
    return 0;
  },
};

const listedShape: Shape<ListedClaim> = {
  columns: [...claimShape.columns, ["CREATED", ({ createdAt }) => createdAt]],
  name: claimShape.name,
};

const instanceShape: Shape<Instance> = {
  columns: [
    ["INSTANCE", ({ name }) => name],
    ["TENANT", ({ tenantId }) => tenantId],
    ["WORKLOAD", ({ workloadRef }) => workloadRef],
    ["PHASE", ({ phase, reason }) => (reason === undefined ? phase : `${phase} (${reason})`)],
    ["READY", ({ ready }) => String(ready)],
    ["RESTARTS", ({ restarts }) => restarts],
    ["CREATED", ({ createdAt }) => createdAt],
  ],
  name: ({ name }) => name,
};

export const list: Command = {
  name: "ls",
  summary: "List claims, or instances",
  words: "[tenant]",
  most: 1,
  options: {
    instances: { kind: "flag", short: "i", help: "list instances, warm ones without a tenant too" },
    workload: { kind: "value", value: "NAME", help: "only of this workload" },
    phase: { kind: "value", value: "PHASE", help: "only in this phase, such as Active" },
  },
  notes: ["A key of some tenants needs the tenant."],
  examples: ["ls", "ls alice --phase Active", "ls --instances -o json"],
  async run(input, { client, print, signal }) {
    const query = { tenant: input.words[0], workload: input.value("workload"), phase: input.value("phase") } as object;
    if (input.flag("instances")) await print.list(await client.instances(query, { signal }), instanceShape);
    else await print.list(await client.claims(query, { signal }), listedShape);
    return 0;
  },
};
