import { mkdtempSync, readdirSync, readlinkSync, renameSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../../crds/client/exec/exec.ts";
import { untilCommandsEnd } from "../../snapshots/local-exec.ts";
import { type TestEdge, testEdge } from "../test-edge.ts";
import { insideExec } from "./inside-exec.ts";

export const INSTANCE = "/api/v1/instances/a";
export const FILES = `${INSTANCE}/files`;

/** Tests of files in an instance, over the real program. Each has a folder and edges of its own. */
export function filesSuite(name: string) {
  const test = suite(name);
  const opened: TestEdge[] = [];
  let exec: Exec;
  let folder: string;

  test.before(async () => {
    exec = await insideExec();
  });
  test.before.each(() => {
    folder = mkdtempSync(join(tmpdir(), "tenancy-files-"));
  });
  test.after.each(async () => {
    for (const edge of opened.splice(0)) await edge.channels.close();
    await untilCommandsEnd();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Runs a shell in the instance. */
  async function run(edge: TestEdge, script: string): Promise<string> {
    const body = { command: ["/bin/sh", "-c", script], cwd: folder };
    const { status, text, json } = await edge.call(`POST ${INSTANCE}/processes`, { body });
    assert.is(status, 200, text);
    const { exitCode, stdout, stderr } = json as { exitCode: number; stdout: string; stderr: string };
    assert.is(exitCode, 0, stderr);
    return stdout;
  }

  async function download(edge: TestEdge, name: string): Promise<Response> {
    return await respond(edge, `GET ${FILES}/${join(folder, name).slice(1)}?archive=tar.gz`);
  }

  return {
    test,
    run,
    /** Asks for a folder's archive. */
    download,
    /** All of it. */
    async archiveOf(edge: TestEdge, name: string): Promise<Buffer> {
      const response = await download(edge, name);
      const bytes = Buffer.from(await response.arrayBuffer());
      assert.is(response.status, 200, bytes.toString());
      return bytes;
    },
    /**
     * Replaces a folder by a link to another one, again and again, until a call is over.
     *
     * @returns what the call returns, and how often that was
     */
    async swapping<T>(names: { folder: string; elsewhere: string }, call: Promise<T>): Promise<[T, number]> {
      const [swapped, elsewhere, aside] = [names.folder, names.elsewhere, "aside"].map((name) => join(folder, name));
      assert.ok(swapped && elsewhere && aside);
      let swaps = 0;
      let isOver = false;
      const ended = call.finally(() => {
        isOver = true;
      });
      while (!isOver) {
        renameSync(swapped, aside);
        for (let isBack = false; !isBack; ) {
          try {
            symlinkSync(elsewhere, swapped);
            swaps += 1;
            unlinkSync(swapped);
            renameSync(aside, swapped);
            isBack = true;
          } catch {
            // The call has put another folder in its place.
            rmSync(swapped, { recursive: true, force: true });
          }
        }
        await setImmediate();
      }
      return [await ended, swaps];
    },
    /** A path in the test's folder. */
    inFolder: (...names: string[]) => join(folder, ...names),
    /** The same in a URL. */
    below: (...names: string[]) => join(folder, ...names).slice(1),
    /** An edge with one instance, `a`. */
    open(wrap: (run: Exec) => Exec = (run) => run): TestEdge {
      const edge = testEdge({ exec: wrap(exec) });
      edge.cluster.addInstance("a");
      opened.push(edge);
      return edge;
    },
  };
}

/** The response as it comes. */
export async function respond(
  edge: TestEdge,
  target: string,
  options: {
    headers?: Record<string, string>;
    body?: string | Uint8Array | ReadableStream<Uint8Array>;
    gone?: AbortSignal;
  } = {},
): Promise<Response> {
  const { headers, body, gone } = options;
  const [method = "", path] = target.split(" ");
  const init = { method, headers: { ...headers }, ...(body !== undefined && { body, duplex: "half" }) };
  return await edge.handler(
    new Request(`http://edge.test${path}`, init as RequestInit),
    gone === undefined ? {} : { clientGone: gone },
  );
}

/** The program's daemon, as this machine numbers it. */
export async function daemonOf(edge: TestEdge): Promise<string> {
  const body = { command: ["/bin/cat", "/proc/self/status"] };
  const { status, text, json } = await edge.call(`POST ${INSTANCE}/processes`, { body });
  assert.is(status, 200, text);
  const [, pid = ""] = /^PPid:\s+(\d+)$/m.exec((json as { stdout: string }).stdout) ?? [];
  return pid;
}

/** What a process has open. */
export function openFiles(pid: string): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
    } catch {
      // It was closed.
      return [];
    }
  });
}

/** All that tar should keep, as `find` sees it: path, type, permissions, size, time, target. */
export const LIST = String.raw`find . -mindepth 1 ! -type s ! -type p -printf '%P|%y|%m|%Ts|%l|' \( -type f -printf '%s' -o -true \) -printf '\n' | LC_ALL=C sort`;

/** For a shell: a folder `tree` with all that a folder can have. */
export const MAKE_TREE = String.raw`mkdir -p tree/empty tree/deep/er tree/private; cd tree
  printf content > file; chmod 4751 file; : > none; ln file deep/other-name
  ln -s /nowhere/at/all dangling; ln -s ../file deep/link; mkfifo pipe
  printf odd > "$(printf 'caf\351 \n%%')"; printf x > "$(printf 'l%.0s' $(seq 200))"
  long=$(printf 'd%.0s' $(seq 150)); mkdir -p $long/$long; ln -s $long$long $long/$long/long-link; printf y > $long/$long/file
  head -c 3000000 /dev/urandom > deep/er/random
  touch -h -d @1000000000 dangling; touch -d @1111111111 file deep/er empty; chmod 0711 deep/er; chmod 0500 private`;
