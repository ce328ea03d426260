import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

  return {
    test,
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
