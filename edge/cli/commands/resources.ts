import { readFileSync } from "node:fs";
import * as v from "valibot";
import { parseAllDocuments } from "yaml";
import { ApiError, type Workload } from "../../client/index.ts";
import { type Command, CommandError, type Context, UsageError } from "../command.ts";
import { readAll } from "../io.ts";
import type { Shape } from "../printer.ts";

const MOST_BYTES = 16 * 1024 * 1024;
const kinds = { TenancyWorkload: "workload", TenancyPool: "pool", TenancyTrigger: "trigger" } as const;
type Kind = (typeof kinds)[keyof typeof kinds];

const workloadShape: Shape<Workload> = {
  columns: [
    ["NAME", ({ name }) => name],
    ["PHASE", ({ status: { phase, reason } }) => (reason === undefined ? phase : `${phase} (${reason})`)],
    ["IMAGE", ({ spec, status }) => status.image ?? spec.image.ref ?? spec.image.dockerfile],
    ["CREATED", ({ createdAt }) => createdAt],
  ],
  name: ({ name }) => name,
};

export const listWorkloads: Command = {
  name: "workloads ls",
  summary: "List workloads",
  examples: ["workloads ls"],
  async run(_, { client, print, signal }) {
    await print.list(await client.call("GET /api/v1/workloads", { signal }), workloadShape);
    return 0;
  },
};

export const getWorkload: Command = {
  name: "workloads get",
  summary: "Show a workload; with -o yaml all of its spec and status",
  words: "<name>",
  least: 1,
  examples: ["workloads get hello -o yaml"],
  async run({ words }, { client, print, signal }) {
    const path = { name: words[0] ?? "" };
    await print.one(await client.call("GET /api/v1/workloads/{name}", { path, signal }), workloadShape);
    return 0;
  },
};

const manifestSchema = v.looseObject({
  apiVersion: v.literal("tenancy.dev/v1alpha1"),
  kind: v.picklist(["TenancyWorkload", "TenancyPool", "TenancyTrigger"]),
  metadata: v.looseObject({ name: v.string(), namespace: v.optional(v.string()) }),
});

interface Manifest {
  readonly kind: Kind;
  readonly name: string;
  readonly spec: unknown;
}

interface Applied {
  readonly kind: Kind;
  readonly name: string;
  readonly change: string;
}

const appliedShape: Shape<Applied> = {
  columns: [
    ["OBJECT", ({ kind, name }) => `${kind}/${name}`],
    ["CHANGE", ({ change }) => change],
  ],
  name: ({ kind, name }) => `${kind}/${name}`,
};

const file = {
  kind: "values",
  short: "f",
  value: "FILE",
  help: "YAML or JSON documents; - for standard input",
} as const;

export const apply: Command = {
  name: "apply",
  summary: "Create or replace workloads, pools and triggers as files describe them",
  options: { file, "dry-run": { kind: "flag", help: "check everything, and write nothing" } },
  notes: [
    "Documents are as in manifests: TenancyWorkload, TenancyPool and TenancyTrigger. Others are refused before anything",
    "is written. The API decides the namespace; labels and annotations need kubectl.",
  ],
  examples: ["apply -f workload.yaml", "cat *.yaml | tenancy apply -f - --dry-run"],
  async run(input, context) {
    const query: { dryRun?: boolean } = input.flag("dry-run") ? { dryRun: true } : {};
    const manifests = await manifestsOf(input.values("file"), context);
    const applied: Applied[] = [];
    try {
      for (const manifest of manifests) applied.push(await applyOne(manifest, query, context));
    } finally {
      await context.print.list(applied, appliedShape);
    }
    return 0;
  },
};

export const remove: Command = {
  name: "delete",
  summary: "Delete the workloads, pools and triggers that files describe, the last one first",
  options: { file },
  notes: ["A workload that claims or pools use is Terminating until the last of them has ended."],
  examples: ["delete -f workload.yaml"],
  async run(input, context) {
    const { signal, client, print } = context;
    for (const { kind, name } of (await manifestsOf(input.values("file"), context)).reverse()) {
      if (kind === "workload") await client.call("DELETE /api/v1/workloads/{name}", { path: { name }, signal });
      if (kind === "pool") await client.call("DELETE /api/v1/pools/{name}", { path: { name }, signal });
      if (kind === "trigger") await client.call("DELETE /api/v1/triggers/{id}", { path: { id: name }, signal });
      await print.event(
        { kind, name, change: "deleted" },
        { text: () => `${kind}/${name} deleted`, name: appliedShape.name },
      );
    }
    return 0;
  },
};

async function applyOne(
  { kind, name, spec }: Manifest,
  query: { dryRun?: boolean },
  { client, signal }: Pick<Context, "client" | "signal">,
): Promise<Applied> {
  const said = (change: string) => ({ kind, name, change: query.dryRun ? `${change} (dry run)` : change });
  const body = { spec } as never;
  const created = { name, spec } as never;
  try {
    await replace();
    return said("replaced");
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
  await create();
  return said("created");

  async function replace(): Promise<unknown> {
    if (kind === "workload")
      return client.call("PUT /api/v1/workloads/{name}", { path: { name }, query, body, signal });
    if (kind === "pool") return client.call("PUT /api/v1/pools/{name}", { path: { name }, query, body, signal });
    return client.call("PUT /api/v1/triggers/{id}", { path: { id: name }, query, body, signal });
  }
  async function create(): Promise<unknown> {
    if (kind === "workload") return client.call("POST /api/v1/workloads", { query, body: created, signal });
    if (kind === "pool") return client.call("POST /api/v1/pools", { query, body: created, signal });
    return client.call("POST /api/v1/triggers", { query, body: created, signal });
  }
}

/** All documents of the files, checked as far as it goes here. */
async function manifestsOf(
  files: readonly string[],
  { io, print }: Pick<Context, "io" | "print">,
): Promise<Manifest[]> {
  if (files.length === 0) throw new UsageError("Cannot apply nothing: name files with -f, or - for standard input");
  const manifests: Manifest[] = [];
  for (const name of files) {
    const text = name === "-" ? String(await readAll(io.stdin, { mostBytes: MOST_BYTES })) : readText(name);
    for (const { errors, ...document } of documentsOf(text)) {
      const where = `${name === "-" ? "standard input" : name}, document ${document.at}`;
      if (errors !== undefined) throw mistake(`Cannot read ${where}: ${errors}`);
      const parsed = v.safeParse(manifestSchema, document.value);
      if (!parsed.success) {
        const [issue] = parsed.issues;
        throw mistake(`Cannot apply ${where}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}`);
      }
      const { kind, metadata, spec } = parsed.output;
      for (const field of ["labels", "annotations"])
        if (metadata[field] !== undefined) await print.note(`${where}: metadata.${field} is not sent; kubectl sets it`);
      manifests.push({ kind: kinds[kind], name: metadata.name, spec });
    }
  }
  return manifests;
}

function documentsOf(text: string): { at: number; value: unknown; errors: string | undefined }[] {
  const parsed = parseAllDocuments(text);
  if (!Array.isArray(parsed)) return [];
  return parsed
    .map((document, index) => ({
      at: index + 1,
      value: document.errors.length > 0 ? undefined : document.toJS({ maxAliasCount: 100 }),
      errors: document.errors[0]?.message.split("\n")[0],
    }))
    .filter(({ value, errors }) => value !== null || errors !== undefined);
}

function readText(name: string): string {
  try {
    return readFileSync(name, "utf8");
  } catch (cause) {
    throw new CommandError(`Cannot read ${name}: ${(cause as Error).message}`, { exitCode: 1, cause });
  }
}

function mistake(message: string): CommandError {
  return new CommandError(message, { exitCode: 2 });
}
