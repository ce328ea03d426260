import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import type { InstanceFile, WatchEvent } from "../../client/index.ts";
import type { Command } from "../command.ts";
import { editFile } from "../files/edit.ts";
import { instanceOf } from "../instance.ts";
import { numberOf } from "../parse.ts";
import { pourTo } from "../pour.ts";
import { bytesText, type Shape } from "../printer.ts";

const fileShape: Shape<InstanceFile> = {
  columns: [
    ["MODE", ({ mode, type }) => `${mode} ${type}`],
    ["OWNER", ({ uid, gid }) => `${uid}:${gid}`],
    ["SIZE", ({ sizeBytes }) => bytesText(sizeBytes)],
    ["MODIFIED", ({ modifiedAt }) => modifiedAt],
    ["PATH", (file) => (file.target === undefined ? pathOf(file) : `${pathOf(file)} -> ${file.target}`)],
  ],
  name: pathOf,
};

function pathOf({ path, encodedPath }: { path: string; encodedPath?: string }): string {
  return encodedPath ?? `/${path}`;
}

const watchShape = {
  text: (event: WatchEvent) => {
    if (!("path" in event)) return "message" in event ? `${event.type}  ${event.message}` : event.type;
    const from = event.from === undefined ? "" : `/${event.from} -> `;
    return `${event.type}  ${from}${pathOf(event)}`;
  },
  name: (event: WatchEvent) => ("path" in event ? pathOf(event) : event.type),
};

export const list: Command = {
  name: "files ls",
  summary: "List a folder of an instance",
  words: "<where> [folder]",
  ...{ least: 1, most: 2 },
  options: { depth: { kind: "value", value: "NUMBER", help: "how many folders deep; 1 by default, at most 64" } },
  examples: ["files ls alice/agent /data --depth 3"],
  async run(input, { client, print, signal }) {
    const instance = await instanceOf(input.words[0], { client, signal });
    const depth = input.value("depth");
    const options = { signal, ...(depth !== undefined && { depth: numberOf(depth, "--depth") }) };
    await print.list(await client.files.list(instance, input.words[1] ?? "/", options), fileShape);
    return 0;
  },
};

export const cat: Command = {
  name: "files cat",
  summary: "Print a file of an instance, byte for byte",
  words: "<where> <path>",
  least: 2,
  examples: ["files cat alice/agent /data/notes.txt"],
  async run({ words: [where, path = ""] }, { client, io, signal }) {
    const instance = await instanceOf(where, { client, signal });
    await pourTo(io.stdout, await client.files.read(instance, path, { signal }), { signal });
    return 0;
  },
};

export const put: Command = {
  name: "files put",
  summary: "Write a file of an instance, which is there as a whole or not at all",
  words: "<where> <path> [local]",
  ...{ least: 2, most: 3 },
  options: {
    mode: { kind: "value", value: "MODE", help: "its permissions, such as 0755" },
    new: { kind: "flag", help: "fail if there is a file" },
  },
  notes: ["The content is the local file, or standard input without one."],
  examples: ["files put alice/agent /data/notes.txt notes.txt", "echo hi | tenancy files put alice/agent /data/hi"],
  async run(input, { client, io, print, signal }) {
    const [where, path = "", local] = input.words;
    const instance = await instanceOf(where, { client, signal });
    const stream = local === undefined || local === "-" ? io.stdin : createReadStream(local);
    const body = Readable.toWeb(stream) as ReadableStream<Uint8Array>;
    const options = { mode: input.value("mode"), isNew: input.flag("new"), signal };
    await print.one(await client.files.write(instance, path, body, options), fileShape);
    return 0;
  },
};

export const remove: Command = {
  name: "files rm",
  summary: "Remove a file or folder of an instance",
  words: "<where> <path>",
  least: 2,
  options: { recursive: { kind: "flag", short: "r", help: "a folder with all that is in it" } },
  examples: ["files rm -r alice/agent /data/old"],
  async run(input, { client, signal }) {
    const [where, path = ""] = input.words;
    const instance = await instanceOf(where, { client, signal });
    await client.files.remove(instance, path, { recursive: input.flag("recursive"), signal });
    return 0;
  },
};

export const move: Command = {
  name: "files mv",
  summary: "Move a file or folder within an instance",
  words: "<where> <from> <to>",
  least: 3,
  options: { replace: { kind: "flag", help: "over a file that is there" } },
  examples: ["files mv alice/agent /data/a /data/b"],
  async run(input, { client, print, signal }) {
    const [where, from = "", to = ""] = input.words;
    const instance = await instanceOf(where, { client, signal });
    const options = { replace: input.flag("replace"), signal };
    await print.one(await client.files.move(instance, from, to, options), fileShape);
    return 0;
  },
};

export const edit: Command = {
  name: "files edit",
  summary: "Edit a file of an instance in $VISUAL or $EDITOR",
  words: "<where> <path>",
  least: 2,
  notes: ["If the file has changed in the instance in the meantime, nothing is written, and your text stays here."],
  examples: ["files edit alice/agent /data/notes.txt"],
  async run({ words: [where, path = ""] }, { client, io, print, signal }) {
    const instance = await instanceOf(where, { client, signal });
    await print.note(await editFile({ instance, path }, { client, env: io.env, signal }));
    return 0;
  },
};

export const watch: Command = {
  name: "files watch",
  summary: "Follow what changes in a folder of an instance, until Ctrl-C",
  words: "<where> [folder]",
  ...{ least: 1, most: 2 },
  options: { depth: { kind: "value", value: "NUMBER", help: "how many folders deep; 1 by default, at most 64" } },
  examples: ["files watch alice/agent /data --depth 64"],
  async run(input, { client, print, signal }) {
    const instance = await instanceOf(input.words[0], { client, signal });
    const depth = input.value("depth");
    const options = { signal, ...(depth !== undefined && { depth: numberOf(depth, "--depth") }) };
    for await (const event of client.files.watch(instance, input.words[1] ?? "/", options))
      await print.event(event, watchShape);
    return 0;
  },
};
