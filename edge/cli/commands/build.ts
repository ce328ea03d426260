import { createApi } from "../build/api.ts";
import { buildWorkload } from "../build/build-workload.ts";
import { type Command, UsageError } from "../command.ts";

export const build: Command = {
  name: "build",
  summary: "Upload a folder as the build context of a workload, and follow the build of its image",
  words: "<workload>",
  least: 1,
  options: { context: { kind: "value", value: "FOLDER", help: "the folder; its .dockerignore is used" } },
  notes: ["The exit code is 0 when the image is built, and 1 when the build has failed."],
  examples: ["build pages --context ./pages"],
  async run(input, { settings: { url, key }, io, print, signal }) {
    const folder = input.value("context");
    if (folder === undefined) throw new UsageError("Cannot build without files: name a folder with --context");
    const log = (line: string): void => void print.note(line).catch(() => undefined);
    const api = createApi({ url, key, signal, onRetry: (message) => log(`waiting: ${message}`) });
    const onOutput = (chunk: Buffer): void => void io.stdout.write(chunk);
    return (await buildWorkload({ api, name: input.words[0] ?? "", folder, log, onOutput, signal })) ? 0 : 1;
  },
};
