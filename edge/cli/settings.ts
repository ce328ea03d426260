import { randomUUID } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import { steadyClock } from "../../crds/client/clock.ts";
import { originOf } from "../client/call.ts";
import { CommandError, type Input, UsageError } from "./command.ts";
import { type Io, readAll, withoutLastEnd } from "./io.ts";
import { isEnding, type OidcLogin, oidcLoginSchema, refreshLogin } from "./oidc.ts";

const DEFAULT_URL = "http://127.0.0.1:8080";
/** A provider has 30 s for its answer. */
const LOCK_LIMIT_MS = 60_000;
const LOCK_LOOK_MS = 100;
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
  /** In the place of a key, by address. */
  oidc: v.optional(v.record(v.string(), oidcLoginSchema), {}),
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
 * @param options.needsKey whether a login at a provider that has ended is an error. @default true
 * @throws UsageError for an address that is none; CommandError if a file cannot be used, or a login has ended
 */
export async function readSettings(
  input: Input,
  io: Io,
  { needsKey = true }: { needsKey?: boolean } = {},
): Promise<Settings> {
  const keyFile = input.value("key-file");
  const logins = readLogins(io.env);
  const url = addressOf(input.value("url") ?? (io.env.TENANCY_URL || logins.url) ?? DEFAULT_URL);
  if (keyFile !== undefined) return { url, key: await readKey(keyFile, io) };
  const key = io.env.TENANCY_KEY || logins.keys[url];
  return { url, key: key ?? (needsKey ? await accessTokenFor(url, logins.oidc[url], io.env) : undefined) };
}

/** The access token of the login at a provider for an address, if there is one. */
async function accessTokenFor(url: string, login: OidcLogin | undefined, env: Env): Promise<string | undefined> {
  if (login === undefined || !isEnding(login)) return login?.accessToken;
  const leave = await lockLogins(env);
  try {
    // Another command may have got one, and a refresh token is often valid only once.
    const present = readLogins(env);
    const other = present.oidc[url];
    if (other === undefined || !isEnding(other)) return other?.accessToken;
    const next = await refreshLogin(other);
    writeLogins({ ...present, oidc: { ...present.oidc, [url]: next } }, env);
    return next.accessToken;
  } finally {
    leave();
  }
}

/**
 * Waits until no other command asks for a token, at most as long as one could.
 *
 * @returns what lets the next one ask
 * @throws CommandError if the folder cannot be written
 */
async function lockLogins(env: Env): Promise<() => void> {
  const path = `${configPath(env)}.lock`;
  const leave = () => rmSync(path, { recursive: true, force: true });
  const endMs = steadyClock.now() + LOCK_LIMIT_MS;
  for (;;) {
    try {
      mkdirSync(path);
      return leave;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "EEXIST")
        throw new CommandError(`Cannot make ${path}: ${(cause as Error).message}`, { exitCode: 1, cause });
    }
    // It was left by a command that was killed.
    if (steadyClock.now() > endMs) leave();
    else await sleep(LOCK_LOOK_MS);
  }
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
  if (!isThere(path)) return { keys: {}, oidc: {} };
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
