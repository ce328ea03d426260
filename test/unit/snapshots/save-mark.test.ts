// What a save is judged by: never by words that may be lost, or cut, or come in another order.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Transform, Writable } from "node:stream";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { type SaveOverlayOptions, saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import { localExec, unprivilegedExec, untilCommandsEnd } from "./local-exec.ts";
import { call, machine, saveSuite } from "./save-suite.ts";
import { staticBusybox } from "./static-busybox.ts";

const test = saveSuite("saveOverlay");

/** As when a part of what a command says on its standard error does not arrive. */
function losing(part: (lines: string[]) => string[]): Exec {
  return async (options) => {
    const result = await unprivilegedExec(options);
    return { ...result, stderr: part(result.stderr.split("\n")).join("\n") };
  };
}

for (const [what, part] of [
  ["its first line", (lines: string[]) => lines.slice(1)],
  ["all of it but the last line", (lines: string[]) => lines.slice(-2)],
  ["all of it", () => []],
] as const) {
  test(`fails for a file that cannot be read, and names it, when of the standard error is lost ${what}`, async ({
    save,
    lock,
    newest,
  }) => {
    const before = await save(unprivilegedExec);
    lock("locked");
    const error = await save(losing(part)).catch((cause: unknown) => cause);
    assert.match(String(error), /ExecFailure: Cannot save the overlay directories: .*data\/locked.*Permission denied/);
    assert.equal(await newest(), before);
  });
}

for (const name of [
  "error exit delayed from previous errors",
  "tar: x: No such file or directory",
  "x: No such file or directory\ntar: error exit delayed from previous errors\ntar: y",
  "x: No such file or directory\nend\nsaved 1 0\nend",
  "x\ntar ended with 0",
]) {
  test(`fails for a file that cannot be read and is named ${JSON.stringify(name)}`, async ({ save, lock }) => {
    lock(name);
    assert.match(String(await save(unprivilegedExec).catch((cause: unknown) => cause)), /^ExecFailure: .*/);
  });
}

/** Two thousand paths of which nothing is there, which tar says more of than an exec keeps. */
const none = `$("$REAL" seq 2000 | "$REAL" sed s:^:data/a-long-name-of-a-file-that-is-not-there-:)`;

test("leaves out what vanishes while it is read, however much that is", async ({ save, withTar }) => {
  const saved = await save(unprivilegedExec, { busybox: withTar(`exec "$REAL" "$@" ${none}`) });
  assert.is(saved.entries, 2);
});

test("fails for one file that cannot be read among very many that vanish", async ({ save, withTar, lock }) => {
  lock("locked");
  const busybox = withTar(`exec "$REAL" tar c -f - -- ${none} data`);
  const error = await save(unprivilegedExec, { busybox }).catch((cause: unknown) => cause);
  assert.match(String(error), /data\/locked.*Permission denied/);
});

test("fails when tar is ended behind a whole archive, or complains in another language", async ({ save, withTar }) => {
  const ended = withTar('"$REAL" "$@"; kill -9 $$');
  assert.match(String(await save(unprivilegedExec, { busybox: ended }).catch((cause: unknown) => cause)), /137/);
  const abroad = withTar('"$REAL" "$@"; echo "tar: data/x: Datei oder Verzeichnis nicht gefunden" >&2; exit 1');
  const error = await save(unprivilegedExec, { busybox: abroad }).catch((cause: unknown) => cause);
  assert.ok(/nicht gefunden/.test(String(error)), String(error));
});

test("says why, and at once, when tar gives up in the middle of a file", async ({ save, withTar }) => {
  const busybox = withTar('"$REAL" "$@" | "$REAL" head -c 900; echo "tar: short read" >&2; exit 1');
  const error = await save(unprivilegedExec, { busybox }).catch((cause: unknown) => cause);
  assert.match(String(error), /ExecFailure: .*short read/);
});

test("says why the store failed, also where the store has stopped reading before", async ({ folder, data }) => {
  writeFileSync(join(data, "more"), randomBytes(8 << 20));
  const store: Pick<SaveOverlayOptions, "write" | "space"> = {
    space: () => Promise.reject(new Error("not asked for")),
    async write(archive) {
      for await (const _ of archive) break;
      await new Promise((resolve) => setTimeout(resolve, 10));
      throw new Error("No space left on device");
    },
  };
  const pod = { ...machine, busybox: staticBusybox, root: folder };
  const options = { ...store, exec: localExec, pod, limits: archiveLimits({ diskGb: 1 }), overlayDirs: ["/data"] };
  const error = await saveOverlay({ ...options, ...call }).catch((cause: unknown) => cause);
  assert.is(String(error), "Error: No space left on device");
  await untilCommandsEnd();
});

// What `Exec` makes of it: test/cluster/client/exec.test.ts.
test("gives up a pod that is silent for a minute, or slower than its pace", async ({ save }) => {
  const limits: Pick<Parameters<Exec>[0], "maxSilenceMs" | "minOutput">[] = [];
  await save(({ maxSilenceMs, minOutput, ...options }) => {
    limits.push({ maxSilenceMs, minOutput });
    return localExec(options);
  });
  assert.equal(limits, [{ maxSilenceMs: 60_000, minOutput: { bytesPerSecond: 64 * 1024, overMs: 60_000 } }]);
});

test("fails when an overlay directory is not there", async ({ save, newest }) => {
  const before = await save(unprivilegedExec);
  const error = await save(unprivilegedExec, { overlayDirs: ["/data", "/more"] }).catch((cause: unknown) => cause);
  assert.match(String(error), /more was not there/);
  assert.equal(await newest(), before);
});

/** As when a part of what the command writes does not arrive, and its end is reported as good. */
function cutting(edit: (output: Buffer) => Buffer): Exec {
  return async (options) => {
    const chunks: Buffer[] = [];
    const taken = new Writable({
      write(chunk: Buffer, _encoding, callback) {
        chunks.push(chunk);
        callback();
      },
    });
    const result = await unprivilegedExec({ ...options, stdin: Readable.from(["received\n"]), stdout: taken });
    const output = edit(Buffer.concat(chunks));
    // The acknowledgement comes when all of it has been looked at.
    const received = output.subarray(-4).equals(Buffer.from("end\n")) && once(options.stdin as Readable, "data");
    options.stdout?.write(output);
    await received;
    options.stdin?.destroy();
    return result;
  };
}

test("fails when its mark does not arrive, or only a part of it", async ({ save }) => {
  for (const lost of [4, 8, 30]) {
    const error = await save(cutting((output) => output.subarray(0, output.length - lost))).catch((cause) => cause);
    assert.match(String(error), /ExecFailure: .*does not say that all was sent/, `${lost} bytes are lost: ${error}`);
  }
});

test("fails when whole entries of the archive do not arrive, which leaves a whole archive", async ({ save, data }) => {
  for (const name of ["b", "c", "d"]) writeFileSync(join(data, name), "x".repeat(512));
  // Behind the list of the files, and the directory's header.
  const cut = (output: Buffer) => {
    const start = output.indexOf("\ngood 0 0\n") + "\ngood 0 0\n".length + 512;
    return Buffer.concat([output.subarray(0, start), output.subarray(start + 1024)]);
  };
  assert.is(
    String(await save(cutting(cut)).catch((cause) => cause)),
    "ExecFailure: Cannot save the overlay directories: of 65536 bytes 64512 arrived",
  );
});

test("takes a save for good whose output comes byte by byte", async ({ save, data }) => {
  const single: Exec = (options) => {
    const bytes = new Transform({
      transform(chunk: Buffer, _encoding, callback) {
        for (const byte of chunk) this.push(Buffer.from([byte]));
        callback();
      },
    });
    bytes.pipe(options.stdout as NodeJS.WritableStream, { end: false });
    return unprivilegedExec({ ...options, stdout: bytes });
  };
  const saved = await save(single);
  assert.is(saved.entries, readdirSync(data).length + 1);
});

test.run();
