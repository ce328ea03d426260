import { parseArgs } from "node:util";

/** The arguments of the command line. */
export type WorkloadArguments =
  | { readonly command: "help" }
  | {
      readonly command: "build";
      readonly name: string;
      /** The folder to pack. */
      readonly context: string;
      /** The address of the API, without a slash at its end. */
      readonly url: string;
      /** The file with the API key. */
      readonly keyFile: string | undefined;
    };

const DEFAULT_URL = "http://127.0.0.1:8080";

export const USAGE = `npm run workload -- build NAME --context DIR [--url URL] [--key-file FILE]

  build NAME   pack a folder, upload it as the build context of the workload, and follow the build of its image;
               ends with 0 when the image is built, with 1 when it is not

  --context DIR      the folder; its .dockerignore is used
  --url URL          of the API (${DEFAULT_URL})
  --key-file FILE    a file that holds the API key

  TENANCY_API_KEY    the API key, where there is no --key-file
`;

/**
 * Reads the command line.
 *
 * @throws Error that describes the mistake
 */
export function parseArguments(words: readonly string[]): WorkloadArguments {
  const { values, positionals } = parseArgs({
    args: [...words],
    allowPositionals: true,
    options: {
      context: { type: "string" },
      url: { type: "string", default: DEFAULT_URL },
      "key-file": { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const [command, name, ...surplus] = positionals;
  if (values.help || command === undefined || command === "help") return { command: "help" };
  if (command !== "build") throw new Error(`Cannot do "${command}": use build`);
  if (name === undefined) throw new Error("Cannot build nothing: name a workload after build");
  if (surplus.length > 0) throw new Error(`Cannot make sense of "${surplus.join(" ")}" after ${name}`);
  const { context, url } = values;
  if (context === undefined) throw new Error("Cannot build without files: name a folder after --context");
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : "")) {
    throw new Error(`Cannot use --url ${url}: it must be such as ${DEFAULT_URL}`);
  }
  return { command: "build", name, context, url: url.replace(/\/+$/, ""), keyFile: values["key-file"] };
}
