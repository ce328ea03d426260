import type { SavedChange, Snapshot, SnapshotVersion } from "../../client/index.ts";
import type { Command } from "../command.ts";
import { bytesText, type Shape } from "../printer.ts";
import { claimKeyOf } from "../where.ts";

const snapshotShape: Shape<Snapshot> = {
  columns: [
    ["TENANT", ({ tenantId }) => tenantId],
    ["WORKLOAD", ({ workloadRef }) => workloadRef],
    ["SIZE", ({ sizeBytes }) => bytesText(sizeBytes)],
    ["SHA256", ({ sha256 }) => sha256?.slice(0, 16)],
    ["CREATED", ({ createdAt }) => createdAt],
  ],
  name: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
};

const versionShape: Shape<SnapshotVersion> = {
  columns: [
    ["VERSION", ({ version }) => version.slice(0, 16)],
    ["NEWEST", ({ newest }) => (newest ? "yes" : "no")],
    ["NAMES", ({ names }) => names?.join(", ")],
    ["KEPT", ({ kept, kind }) => kept ?? kind],
    ["SIZE", ({ sizeBytes }) => bytesText(sizeBytes)],
    ["CREATED", ({ createdAt }) => createdAt],
  ],
  name: ({ version }) => version,
};

export const checkpoint: Command = {
  name: "checkpoint",
  summary: "Save the files of an instance while it runs",
  words: "<tenant/workload>",
  ...{ least: 1, most: 2 },
  options: { name: { kind: "value", value: "NAME", help: "a name, under which the version stays" } },
  examples: ["checkpoint alice/agent --name before-upgrade"],
  async run(input, { client, print, signal }) {
    const { tenant, workload } = claimKeyOf(input.words);
    const name = input.value("name");
    const options = { signal, ...(name !== undefined && { name }) };
    await print.one(await client.checkpoint(tenant, workload, options), versionShape);
    return 0;
  },
};

export const list: Command = {
  name: "snapshots ls",
  summary: "List saved files, or all versions of those of one claim",
  words: "[tenant | tenant/workload]",
  most: 1,
  examples: ["snapshots ls alice", "snapshots ls alice/agent"],
  async run({ words: [of] }, { client, print, signal }) {
    if (of?.includes("/")) {
      const { tenant, workload } = claimKeyOf([of]);
      await print.list(await client.snapshots.versions(tenant, workload, { signal }), versionShape);
    } else await print.list(await client.snapshots.list({ tenant: of }, { signal }), snapshotShape);
    return 0;
  },
};

const changeShape: Shape<SavedChange> = {
  columns: [
    ["CHANGE", ({ change }) => change],
    ["SIZE", ({ after, before }) => bytesText((after ?? before)?.sizeBytes ?? 0)],
    ["PATH", ({ path, encodedPath }) => encodedPath ?? path],
  ],
  name: ({ path, encodedPath }) => encodedPath ?? path,
};

export const diff: Command = {
  name: "snapshots diff",
  summary: "List what differs between two versions of saved files",
  words: "<tenant/workload>",
  least: 1,
  options: {
    from: { kind: "value", value: "VERSION", help: "the one before the other by default" },
    to: { kind: "value", value: "VERSION", help: "the newest by default" },
  },
  examples: ["snapshots diff alice/agent --from before-upgrade"],
  async run(input, { client, print, signal }) {
    const { tenant, workload } = claimKeyOf(input.words);
    const query = { from: input.value("from"), to: input.value("to") };
    await print.list(await client.snapshots.diff(tenant, workload, query, { signal }), changeShape);
    return 0;
  },
};

export const rollback: Command = {
  name: "snapshots rollback",
  summary: "Make an older version the newest, which the next claim with --resume gets",
  words: "<tenant/workload> <version>",
  least: 2,
  notes: ["The former newest version stays. Release a claim first: the files of a running instance do not change."],
  examples: ["snapshots rollback alice/agent before-upgrade"],
  async run({ words: [of = "", version = ""] }, { client, print, signal }) {
    const { tenant, workload } = claimKeyOf([of]);
    await client.snapshots.rollback(tenant, workload, { version }, { signal });
    await print.note(`the newest version of ${of} is now ${version}`);
    return 0;
  },
};

export const copy: Command = {
  name: "snapshots copy",
  summary: "Give saved files to another tenant, or store them under another workload",
  words: "<tenant/workload> <tenant/workload>",
  least: 2,
  options: {
    version: { kind: "value", value: "VERSION", help: "this one, not the newest" },
    replaces: { kind: "value", value: "VERSION", help: "the newest version at the target, which is replaced" },
  },
  examples: ["snapshots copy alice/agent bob/agent"],
  async run(input, { client, print, signal }) {
    const [from = "", to = ""] = input.words;
    const { tenant, workload } = claimKeyOf([from]);
    const target = claimKeyOf([to]);
    const [version, replaces] = [input.value("version"), input.value("replaces")];
    const body = {
      ...{ tenantId: target.tenant, workload: target.workload },
      ...(version !== undefined && { version }),
      ...(replaces !== undefined && { replaces }),
    };
    await client.snapshots.copy(tenant, workload, body, { signal });
    await print.note(`${to} has the files of ${from}`);
    return 0;
  },
};
