import manifest from "../../../package.json" with { type: "json" };
import { ApiError, createClient } from "../../client/index.ts";
import type { Command } from "../command.ts";
import { configPath, readKey, readLogins, writeLogins } from "../settings.ts";

export const login: Command = {
  name: "login",
  summary: "Store the address of the API and a key for it, once the API has accepted the key",
  notes: [
    "The key is read from --key-file or standard input, never from an argument, which other users can see.",
    "$XDG_CONFIG_HOME/tenancy/config.json has it, readable only by you. It is sent to no other address.",
  ],
  examples: ["login --url https://tenancy.example.com --key-file key.txt", "pass tenancy | tenancy login"],
  async run(input, { settings: { url, key: given }, io, print, signal }) {
    const isGiven = input.value("key-file") !== undefined;
    if (!isGiven && io.stdin.isTTY) await print.note(`Paste the key for ${url}, then press Enter and Ctrl-D:`);
    const key = isGiven && given !== undefined ? given : await readKey("-", io);
    // All keys may read it, and it needs one.
    const response = await createClient({ url, key }).send("GET /api/v1/openapi.json", { signal });
    await response.body?.cancel();
    const { keys } = readLogins(io.env);
    await print.note(
      `logged in to ${url}; the key is in ${writeLogins({ url, keys: { ...keys, [url]: key } }, io.env)}`,
    );
    return 0;
  },
};

export const logout: Command = {
  name: "logout",
  summary: "Forget the stored key for the address of the API",
  examples: ["logout"],
  async run(_, { settings: { url }, io, print }) {
    const { url: last, keys } = readLogins(io.env);
    const { [url]: gone, ...left } = keys;
    if (gone === undefined) throw new ApiError(`${configPath(io.env)} has no key for ${url}`, { status: 404 });
    const path = writeLogins({ ...(last !== undefined && last !== url && { url: last }), keys: left }, io.env);
    await print.note(`removed the key for ${url} from ${path}; the key stays valid until it is deleted or ends`);
    return 0;
  },
};

export const version: Command = {
  name: "version",
  summary: "Print the version of this program",
  examples: ["version"],
  async run(_, { print }) {
    const { version } = manifest;
    await print.event({ version }, { text: () => `tenancy ${version}`, name: () => version });
    return 0;
  },
};
