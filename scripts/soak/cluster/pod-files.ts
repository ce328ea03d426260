import { type ChildProcess, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { runCommand } from "../../cluster/process/run-command.ts";

/** The user that every command in a pod runs as, and that owns what is in it. */
const USER = 65532;

/** Where tenants' files are in a pod; the workloads of the soak name it as their overlay directory. */
export const FILES_FOLDER = "/data";

/** A command that runs in a pod may not outlive the soak for long. */
const COMMAND_LIMIT_SECONDS = 3600;

/** What every pod has a link to. */
export interface PodBase {
  /** Path of a static busybox. */
  readonly busybox: string;
  /** Path of a device like `/dev/null`. */
  readonly nothing: string;
}

/** Makes what pods' roots link to, on the file system that they are on. */
export async function makePodBase(folder: string, busybox: string): Promise<PodBase> {
  const base = { busybox: join(folder, "busybox"), nothing: join(folder, "null") };
  copyFileSync(busybox, base.busybox);
  chmodSync(base.busybox, 0o755);
  await runCommand("mknod", ["--mode=666", base.nothing, "c", "1", "3"]);
  return base;
}

/**
 * Makes the folder that a pod's commands see as `/`, with busybox and the folders of its mounts, unless it is there.
 */
export function makePodRoot(root: string, { base, folders }: { base: PodBase; folders: readonly string[] }): void {
  for (const folder of ["/bin", "/dev", "/proc", "/tmp", ...folders]) {
    const path = join(root, folder);
    mkdirSync(path, { recursive: true });
    chownSync(path, USER, USER);
  }
  for (const [target, path] of [
    [base.busybox, join(root, "bin", "busybox")],
    [base.nothing, join(root, "dev", "null")],
  ] as const) {
    if (!existsSync(path)) linkSync(target, path);
  }
}

/** The mount is gone with the command, since it is in a namespace of its own. */
const CONFINE = `mount --bind /proc "$1/proc" || exit 126
root="$1"; shift
exec chroot --userspec=${USER}:${USER} "$root" "$@"`;

/** Runs a command below a pod's root, as the leader of a group of its own. */
export function runInPod(root: string, command: readonly string[]): ChildProcess {
  const confined = ["unshare", "--mount", "--propagation", "private", "sh", "-c", CONFINE, "pod", root, ...command];
  return spawn("timeout", ["--signal=KILL", String(COMMAND_LIMIT_SECONDS), ...confined], {
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  });
}

/** Ends a command with all that it has started. */
export function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** What a tenant has in its pod: the last token that it wrote, which the bytes beside it belong to. */
export type Content = string;

export const EMPTY: Content = "";

/** The length of the file of a token, whatever the token is. */
const TOKEN_BYTES = 256;

/**
 * Writes a token with some random bytes into the folder of a pod's files, in the place of what was there.
 *
 * Files are read by checkpoints at any moment, so at each moment there is the token of one write with its bytes. The
 * bytes of the write before stay, for who has read its token. The token keeps its file and length, so that the
 * file's times alone show the write.
 */
export function writeContent(folder: string, token: Content, bytes: number): void {
  const blob = randomBytes(bytes);
  const digest = createHash("sha256").update(blob).digest("hex");
  const path = join(folder, "token");
  const [, digestBefore = ""] = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const name = blobName(digest);
  writeOwn(join(folder, name), blob);
  const text = `${token}\n${digest}\n`.padEnd(TOKEN_BYTES, "\n");
  if (existsSync(path)) writeFileSync(path, text, { flag: "r+" });
  else {
    writeOwn(`${path}.new`, text);
    renameSync(`${path}.new`, path);
  }
  for (const other of readdirSync(folder))
    if (other.startsWith(BLOB) && other !== name && other !== blobName(digestBefore)) rmSync(join(folder, other));
}

const BLOB = "blob-";

function blobName(digest: string): string {
  return `${BLOB}${digest.slice(0, 16)}`;
}

function writeOwn(path: string, data: string | Buffer): void {
  writeFileSync(path, data);
  chownSync(path, USER, USER);
}

/** Reads the token, and checks the bytes that it came with. */
export function readContent(folder: string): Content {
  const path = join(folder, "token");
  if (!existsSync(path)) return EMPTY;
  const [token = "", digest = ""] = readFileSync(path, "utf8").split("\n");
  const blobPath = join(folder, blobName(digest));
  const blob = existsSync(blobPath) ? readFileSync(blobPath) : Buffer.alloc(0);
  const found = createHash("sha256").update(blob).digest("hex");
  return found === digest ? token : `(token ${token} with other bytes than it came with)`;
}

export function removePodRoot(root: string): void {
  rmSync(root, { recursive: true, force: true, maxRetries: 3 });
}
