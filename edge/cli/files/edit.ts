import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { Client } from "../../client/index.ts";
import { CommandError } from "../command.ts";
import type { Io } from "../io.ts";

/** What an editor takes without complaint. */
const MOST_BYTES = 16 * 1024 * 1024;

/**
 * Opens a file of an instance in the person's editor, and writes it back if it has changed here and not there.
 *
 * @returns what was done, for a person
 * @throws CommandError if the editor fails, or the file has changed there; the text stays in a local file
 */
export async function editFile(
  { instance, path }: { instance: string; path: string },
  { client, env, signal }: { client: Client; env: Io["env"]; signal: AbortSignal },
): Promise<string> {
  const refuse = (why: string) => new CommandError(`Cannot edit ${path}: ${why}`, { exitCode: 1 });
  const { type, etag, sizeBytes } = await client.files.stat(instance, path, { signal });
  if (type !== "file") throw refuse(`it is a ${type}`);
  if (sizeBytes > MOST_BYTES) throw refuse(`it has more than ${MOST_BYTES} bytes; use cp`);
  const before = Buffer.from(await (await client.files.read(instance, path, { signal })).arrayBuffer());
  const folder = mkdtempSync(join(tmpdir(), "tenancy-edit-"));
  // The name of a tenant's file must not be one that an editor acts on.
  const local = join(
    folder,
    basename(path)
      .replaceAll(/[^\w.-]/g, "_")
      .replace(/^[-.]/, "_") || "file",
  );
  let isDone = false;
  try {
    writeFileSync(local, before, { mode: 0o600 });
    await runEditor(local, env);
    const after = readFileSync(local);
    if (after.equals(before)) {
      isDone = true;
      return `${path} has not changed`;
    }
    const now = await client.files.stat(instance, path, { signal });
    if (now.etag !== etag)
      throw new CommandError(`${path} has changed in the instance; nothing is written`, { exitCode: 5 });
    await client.files.write(instance, path, new Uint8Array(after), { signal });
    isDone = true;
    return `${path} is written`;
  } catch (error) {
    throw new CommandError(`${(error as Error).message}; your text is in ${local}`, {
      exitCode: error instanceof CommandError ? error.exitCode : 1,
      cause: error,
    });
  } finally {
    if (isDone) rmSync(folder, { recursive: true });
  }
}

async function runEditor(file: string, env: Io["env"]): Promise<void> {
  const editor = env.VISUAL || env.EDITOR || "vi";
  // It may have arguments, as git takes it.
  const child = spawn("/bin/sh", ["-c", `${editor} "$1"`, "editor", file], {
    stdio: "inherit",
    env: env as NodeJS.ProcessEnv,
  });
  const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
  if (code !== 0)
    throw new CommandError(`Cannot edit: ${editor} ended with ${code ?? signal}; set EDITOR`, { exitCode: 1 });
}
