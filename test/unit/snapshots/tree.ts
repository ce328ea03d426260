import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { staticBusybox } from "./static-busybox.ts";

/** Makes a tree with everything in it that a save must keep. */
export function makeTree(root: string): void {
  const at = (name: string) => Buffer.concat([Buffer.from(`${root}/`), Buffer.from(name, "latin1")]);
  mkdirSync(`${root}/empty`);
  mkdirSync(`${root}/deep/er/still`, { recursive: true });
  writeFileSync(`${root}/plain`, "plain\n");
  writeFileSync(`${root}/deep/er/still/here`, "here\n");
  writeFileSync(at("new\nline"), "1");
  writeFileSync(at("caf\xe9"), "not UTF-8");
  writeFileSync(`${root}/日本語 'quoted' "twice" $HOME \\`, "2");
  writeFileSync(`${root}/-rf`, "3");
  writeFileSync(`${root}/${"n".repeat(99)}`, "99");
  writeFileSync(`${root}/${"n".repeat(100)}`, "100");
  writeFileSync(`${root}/${"n".repeat(255)}`, "255");
  mkdirSync(`${root}/${"d".repeat(200)}`);
  writeFileSync(`${root}/${"d".repeat(200)}/${"f".repeat(200)}`, "long");
  symlinkSync("plain", `${root}/link`);
  symlinkSync("/usr/bin/env", `${root}/absolute`);
  symlinkSync("../../outside", `${root}/upward`);
  symlinkSync("nowhere", `${root}/dangling`);
  symlinkSync("t".repeat(300), `${root}/long-target`);
  linkSync(`${root}/plain`, `${root}/deep/hard`);
  linkSync(`${root}/plain`, `${root}/second-hard`);
  writeFileSync(`${root}/sparse`, "end");
  truncateSync(`${root}/sparse`, 20 * 1024 * 1024);
  writeFileSync(`${root}/odd-size`, Buffer.alloc(1_234_567, "odd "));
  execFileSync(staticBusybox, ["mkfifo", `${root}/pipe`]);
  for (const mode of [0o400, 0o444, 0o600, 0o666, 0o755, 0o777, 0o1644, 0o2755, 0o4755]) {
    writeFileSync(`${root}/mode-${mode.toString(8)}`, "content");
    chmodSync(`${root}/mode-${mode.toString(8)}`, mode);
  }
  for (const mode of [0o500, 0o555, 0o700, 0o777, 0o1777, 0o2775]) {
    mkdirSync(`${root}/folder-${mode.toString(8)}`);
    writeFileSync(`${root}/folder-${mode.toString(8)}/inside`, "content");
    symlinkSync("/late", `${root}/folder-${mode.toString(8)}/late`);
    chmodSync(`${root}/folder-${mode.toString(8)}`, mode);
  }
  let time = 1_000_000_000;
  walk(Buffer.from(root), (path) => {
    time += 1001;
    if (!lstatSync(path).isSymbolicLink()) utimesSync(path, time, time);
  });
}

/**
 * A digest of everything below a folder that a save keeps: names, types, modes, times, contents, targets, hard links.
 */
export function treeLines(root: string): string[] {
  const lines: string[] = [];
  const names = new Map<number, string>();
  walk(Buffer.from(root), (path) => {
    const name = path.toString("latin1").slice(root.length);
    if (name === "") return;
    const found = lstatSync(path);
    const mode = (found.mode & 0o7777).toString(8);
    const time = Math.floor(found.mtimeMs / 1000);
    if (found.isSymbolicLink()) {
      lines.push(`${name} -> ${readlinkSync(path, "latin1")}`);
    } else if (found.isDirectory()) {
      lines.push(`${name}/ ${mode} ${time}`);
    } else if (found.isFile()) {
      const first = names.get(found.ino) ?? name;
      names.set(found.ino, first);
      const sum = createHash("sha256").update(readFileSync(path)).digest("hex");
      lines.push(`${name} ${mode} ${time} ${found.size} ${sum.slice(0, 16)} ${first === name ? "" : `= ${first}`}`);
    }
  });
  return lines.sort();
}

/** Visits a folder's contents before the folder itself, in the order of their names. */
function walk(path: Buffer, visit: (path: Buffer) => void): void {
  if (lstatSync(path).isDirectory()) {
    const names = readdirSync(path, { encoding: "buffer" }).sort(Buffer.compare);
    for (const name of names) walk(Buffer.concat([path, Buffer.from("/"), name]), visit);
  }
  visit(path);
}
