import { randomUUID } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import * as v from "valibot";
import { originOf } from "../client/call.ts";
import { CommandError, type Input, UsageError } from "./command.ts";
import { type Io, readAll, withoutLastEnd } from "./io.ts";

const DEFAULT_URL = "http://127.0.0.1:8080";
const MOST_KEY_BYTES = 64 * 1024;

/** Where the API is, and the key for it. */
export interface Settings {
  /** Without a slash at its end. */
  readonly url: string;
  readonly key: string | undefined;
}

const loginsSchema = v.strictObject({
  /** The one that was logged in to last. */
  url: v.optional(v.string()),
  /** By address: a key is sent nowhere else. */
  keys: v.optional(v.record(v.string(), v.string()), {}),
});
export type Logins = v.InferOutput<typeof loginsSchema>;

type Env = Io["env"];

/** The file with the logins. */
export function configPath(env: Env): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config"), "tenancy", "config.json");
}

/**
 * The settings of a command line: its options, then the environment, then the login.
 *
 * @throws UsageError for an address that is none; CommandError if a file cannot be used
 */
export async function readSettings(input: Input, io: Io): Promise<Settings> {
  const keyFile = input.value("key-file");
  const logins = readLogins(io.env);
  const url = addressOf(input.value("url") ?? (io.env.TENANCY_URL || logins.url) ?? DEFAULT_URL);
  const key = keyFile !== undefined ? await readKey(keyFile, io) : io.env.TENANCY_KEY || logins.keys[url];
  return { url, key };
}

function addressOf(url: string): string {
  try {
    return originOf(url);
  } catch (cause) {
    throw new UsageError(`Cannot use the address ${JSON.stringify(url)}: write such as ${DEFAULT_URL}`, { cause });
  }
}

/** @throws CommandError */
export async function readKey(file: string, io: Io): Promise<string> {
  const text = file === "-" ? String(await readAll(io.stdin, { mostBytes: MOST_KEY_BYTES })) : readText(file);
  const key = withoutLastEnd(text);
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new CommandError(`Cannot use the key of ${file === "-" ? "standard input" : file}: it must be one word`, {
      exitCode: 2,
    });
  return key;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new CommandError(`Cannot read the key file: ${(cause as Error).message}`, { exitCode: 1, cause });
  }
}

/** @throws CommandError if the file is no such file, or others can read it */
export function readLogins(env: Env): Logins {
  const path = configPath(env);
  if (!isThere(path)) return { keys: {} };
  const { mode, uid } = statSync(path);
  if ((mode & 0o077) !== 0 || uid !== process.getuid?.()) {
    throw new CommandError(
      `Cannot use ${path}: other users can read or change it; replace the keys that it has, and make a new one with rm and tenancy login`,
      { exitCode: 1 },
    );
  }
  try {
    return v.parse(loginsSchema, JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    throw new CommandError(`Cannot read ${path}: it is no config.json of tenancy; remove it, and log in again`, {
      ...{ exitCode: 1, cause },
    });
  }
}

/** Writes the file as a whole, readable only by its owner. */
export function writeLogins(logins: Logins, env: Env): string {
  const path = configPath(env);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const making = `${path}.${randomUUID()}`;
  try {
    writeFileSync(making, `${JSON.stringify(logins, undefined, 2)}\n`, { mode: 0o600, flag: "wx" });
    chmodSync(making, 0o600);
    renameSync(making, path);
  } catch (cause) {
    rmSync(making, { force: true });
    throw new CommandError(`Cannot write ${path}: ${(cause as Error).message}`, { exitCode: 1, cause });
  }
  return path;
}

function isThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}
