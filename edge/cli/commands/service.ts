import type { ApiEvent, CreatedKey, Key, Usage } from "../../client/index.ts";
import { type Command, UsageError } from "../command.ts";
import { writeTo } from "../io.ts";
import { numberOf, secondsOf } from "../parse.ts";
import type { Shape } from "../printer.ts";

const usageShape: Shape<Usage> = {
  columns: [
    ["OF", ({ tenantId, workload, day }) => tenantId ?? workload ?? day],
    ["SESSIONS", ({ sessions }) => sessions],
    ["SECONDS", ({ seconds }) => seconds],
    ["VCPU-SECONDS", ({ vcpuSeconds }) => vcpuSeconds],
    ["MIB-SECONDS", ({ mibSeconds }) => mibSeconds],
    ["SNAPSHOT-BYTE-HOURS", ({ snapshotByteHours }) => snapshotByteHours],
  ],
  name: ({ tenantId, workload, day }) => tenantId ?? workload ?? day ?? "",
};

export const usage: Command = {
  name: "usage",
  summary: "Show what sessions and snapshots used",
  words: "[tenant]",
  most: 1,
  options: {
    by: {
      kind: "value",
      value: "WHAT",
      choices: ["tenant", "workload", "day"],
      help: "tenant (the default), workload or day",
    },
    from: { kind: "value", value: "DAY", help: "the first day or hour, such as 2026-11-01; this month by default" },
    to: { kind: "value", value: "DAY", help: "the day or hour after the last one" },
  },
  examples: ["usage --from 2026-11-01 --to 2026-12-01", "usage alice --by day -o json"],
  async run(input, { client, print, signal }) {
    const by = input.value("by") as "tenant" | undefined;
    const query = { tenant: input.words[0], by, from: input.value("from"), to: input.value("to") };
    await print.list(await client.usage(query, { signal }), usageShape);
    return 0;
  },
};

const eventShape = {
  text: ({ time, type, object }: ApiEvent) => `${time}  ${type}  ${nameOf(object)}`,
  name: ({ id }: ApiEvent) => id,
};

function nameOf(object: ApiEvent["object"]): string {
  const { tenantId, workloadRef, name } = (object ?? {}) as Record<string, string | undefined>;
  return [tenantId === undefined ? undefined : `${tenantId}/${workloadRef}`, name].filter(Boolean).join("  ");
}

export const events: Command = {
  name: "events",
  summary: "Follow what happens to claims and instances, until Ctrl-C",
  words: "[tenant]",
  most: 1,
  options: {
    type: { kind: "values", value: "TYPE", help: "such as claim, instance.deleted, workload or pool" },
    workload: { kind: "value", value: "NAME", help: "only of this workload" },
    since: { kind: "value", value: "ID", help: "begin after this event" },
  },
  notes: ["-o json prints one object a line. After the type resync events are missing: list again."],
  examples: ["events", "events alice --type claim -o json"],
  async run(input, { client, print, signal }) {
    const types = input.values("type");
    const options = { tenant: input.words[0], workload: input.value("workload"), since: input.value("since"), signal };
    for await (const event of client.events({ ...options, ...(types.length > 0 && { types }) }))
      await print.event(event, eventShape);
    return 0;
  },
};

const keyShape: Shape<Key> = {
  columns: [
    ["ID", ({ id }) => id],
    ["NAME", ({ name }) => name],
    ["ROLE", ({ role }) => role],
    ["TENANTS", ({ tenants }) => tenants?.join(", ")],
    ["WORKLOADS", ({ workloads }) => workloads?.join(", ")],
    ["EXPIRES", ({ expiresAt }) => expiresAt],
  ],
  name: ({ id }) => id,
};

export const listKeys: Command = {
  name: "keys ls",
  summary: "List the keys with a role",
  examples: ["keys ls"],
  async run(_, { client, print, signal }) {
    await print.list(await client.call("GET /api/v1/keys", { signal }), keyShape);
    return 0;
  },
};

const roles = ["admin", "platform", "tenant", "reader"] as const;

export const createKey: Command = {
  name: "keys create",
  summary: "Create a key with a role, and print it: it is shown this once",
  words: "<name>",
  least: 1,
  options: {
    role: { kind: "value", value: "ROLE", choices: roles, help: roles.join(", ") },
    tenant: { kind: "values", value: "ID", help: "a tenant that it reaches, or the start of ids and a *" },
    workload: { kind: "values", value: "NAME", help: "a workload that it reaches, or the start of names and a *" },
    expires: { kind: "value", value: "TIME", help: "how long it is valid, such as 30d" },
    rate: { kind: "value", value: "NUMBER", help: "how many requests a second it may make of each replica" },
  },
  notes: ["Standard output is the key alone, also with -o name; with -o json it is everything about it."],
  examples: ["keys create 'alice laptop' --role tenant --tenant alice --expires 30d"],
  async run(input, { client, io, print, signal }) {
    const role = input.value("role") as (typeof roles)[number] | undefined;
    if (role === undefined)
      throw new UsageError(`Cannot create a key without a role: write --role ${roles.join(", ")}`);
    const [tenants, workloads] = [[...input.values("tenant")], [...input.values("workload")]];
    const [expires, rate] = [input.value("expires"), input.value("rate")];
    const created: CreatedKey = await client.call("POST /api/v1/keys", {
      body: {
        ...{ name: input.words[0] ?? "", role },
        ...(tenants.length > 0 && { tenants }),
        ...(workloads.length > 0 && { workloads }),
        ...(expires !== undefined && { expiresInSeconds: secondsOf(expires, "--expires") }),
        ...(rate !== undefined && { requestsPerSecond: numberOf(rate, "--rate") }),
      },
      signal,
    });
    if (print.format === "json" || print.format === "yaml") await print.one(created, keyShape);
    else {
      await print.note(`created ${created.id}`);
      await writeTo(io.stdout, `${created.key}\n`);
    }
    return 0;
  },
};

export const removeKey: Command = {
  name: "keys rm",
  summary: "Delete a key, which ends what it has opened",
  words: "<id>",
  least: 1,
  examples: ["keys rm k3v9q2m7x0a8b1c6"],
  async run({ words: [id = ""] }, { client, print, signal }) {
    await client.call("DELETE /api/v1/keys/{id}", { path: { id }, signal });
    await print.note(`deleted ${id}`);
    return 0;
  },
};
