import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { contextScript, tarOfConfigMap } from "../../../operator/builds/feed-context.ts";
import { ExecFailure } from "../../../operator/snapshots/streams/exec-output.ts";
import { feedCommand } from "../../../operator/snapshots/streams/feed-command.ts";
import { END, frames } from "../../../operator/snapshots/streams/frames.ts";
import { localExec } from "../snapshots/local-exec.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";

const test = suite<{ folder: string }>("context of a build");
const configMap = {
  metadata: { name: "c" },
  data: { Dockerfile: "FROM scratch\n", empty: "" },
  binaryData: { "a.bin": Buffer.from([0, 255, 10]).toString("base64") },
};

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-context-"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, force: true }));

function feed(folder: string, input: AsyncIterable<Uint8Array>): Promise<void> {
  return feedCommand({
    exec: localExec,
    target: {
      ...{ namespace: "n", pod: "p", container: "context" },
      command: [staticBusybox, "sh", "-c", contextScript, "context", staticBusybox, folder],
    },
    what: "send the build context",
    input,
    signal: new AbortController().signal,
    timeoutMs: 30_000,
  });
}

async function* whole(map = configMap): AsyncGenerator<Uint8Array> {
  yield* frames(tarOfConfigMap(map));
  yield END;
}

test("the files of a ConfigMap arrive as they are, and the build is let go after that", async ({ folder }) => {
  await feed(folder, whole());
  assert.equal(readdirSync(folder).sort(), [".ready", "files"]);
  assert.equal(readdirSync(join(folder, "files")).sort(), ["Dockerfile", "a.bin", "empty"]);
  assert.is(readFileSync(join(folder, "files/Dockerfile"), "utf8"), "FROM scratch\n");
  assert.equal([...readFileSync(join(folder, "files/a.bin"))], [0, 255, 10]);
});

test("one that is cut off lets no build go, and another try brings it", async ({ folder }) => {
  async function* cut(): AsyncGenerator<Uint8Array> {
    yield* frames([Buffer.concat([...tarOfConfigMap(configMap)]).subarray(0, 1024)]);
    yield Buffer.from("no number\n");
  }
  let said = "";
  await feed(folder, cut()).catch((error: Error) => {
    said = error.message;
  });
  assert.match(said, "Cannot send the build context");
  assert.not.ok(existsSync(join(folder, ".ready")));
  assert.not.ok(existsSync(join(folder, "files")));
  await feed(folder, whole());
  assert.equal(readdirSync(folder).sort(), [".ready", "files"]);
});

test("one that came whole and that tar does not take is told from one that was cut off", async ({ folder }) => {
  const made = { mode: 0o644, uid: 0, gid: 0, mtime: 0, target: "" };
  const content = Buffer.from("x".repeat(512));
  async function* bad(): AsyncGenerator<Uint8Array> {
    yield* frames([
      ...[writeTarHeader({ ...made, type: "directory", path: "files", mode: 0o755, size: 0 })],
      ...[writeTarHeader({ ...made, type: "hardlink", path: "files/a", size: 0, target: "files/none" })],
      ...[writeTarHeader({ ...made, type: "file", path: "files/b", size: content.length }), content],
      Buffer.alloc(1024),
    ]);
    yield END;
  }
  let thrown: unknown;
  await feed(folder, bad()).catch((error: unknown) => {
    thrown = error;
  });
  assert.instance(thrown, ExecFailure);
  assert.is((thrown as ExecFailure).exitCode, 65);
  assert.match((thrown as ExecFailure).message, "files/none");
  assert.not.ok(existsSync(join(folder, ".ready")));
});

test("what an operator left that was killed goes first", async ({ folder }) => {
  mkdirSync(join(folder, "in.999999999/files"), { recursive: true });
  writeFileSync(join(folder, "in.999999999/files/other"), "x");
  await feed(folder, whole());
  assert.equal(readdirSync(folder).sort(), [".ready", "files"]);
  assert.not.ok(existsSync(join(folder, "files/other")));
});

test("two that bring it at once: one whole context, and both are content", async ({ folder }) => {
  const many = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`file-${index}`, `${index}\n`]));
  const map = { ...configMap, data: { Dockerfile: "FROM scratch\n", empty: "", ...many } };
  await Promise.all([feed(folder, whole(map)), feed(folder, whole(map)), feed(folder, whole(map))]);
  assert.equal(readdirSync(folder).sort(), [".ready", "files"]);
  assert.is(readdirSync(join(folder, "files")).length, 303);
});

test("a context that is there stays as it is", async ({ folder }) => {
  await feed(folder, whole());
  await feed(folder, whole({ ...configMap, data: { Dockerfile: "FROM other\n", empty: "" } }));
  assert.is(readFileSync(join(folder, "files/Dockerfile"), "utf8"), "FROM scratch\n");
});

test.run();
