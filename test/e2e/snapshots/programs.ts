// Programs as people write them, whose state is whole only once they have ended.
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import type { Image } from "../../../scripts/cluster/images/image-archive.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { unpackDebianPackages } from "../../../scripts/cluster/images/unpack-debian-packages.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import type { Case } from "../../at-once.ts";
import { losePod, untilCheckpoint, WITH_CHECKPOINTS } from "./checkpoints.ts";
import type { LifeContext } from "./life-suite.ts";

const IMAGE = "localhost/tenancy-programs:1";
const SQLITE = "/usr/bin/sqlite3";

/** An image with Debian's SQLite and this machine's Node. */
export async function programsImage(): Promise<Image> {
  const root = await unpackDebianPackages(["sqlite3"], { name: "sqlite3", log: silent });
  const base = await busyboxFiles(await findStaticBusybox(silent));
  const sqlite = await programFiles({ programs: [SQLITE], files: [], base, root });
  const node = await programFiles({ programs: [process.execPath], files: [], base: [...base, ...sqlite] });
  return {
    name: IMAGE,
    user: "65532:65532",
    files: [...new Map([...base, ...sqlite, ...node].map((entry) => [entry.path, entry])).values()],
  };
}

function running(entrypoint: NonNullable<WorkloadSpec["entrypoint"]>): Partial<WorkloadSpec> {
  return { image: { ref: IMAGE }, entrypoint, resources: { vcpus: 1, memoryMb: 256, diskGb: 1 } };
}

/** Writes rows without end, which stay in the write-ahead log. */
const WRITES_ROWS = `{ echo "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;"
echo "CREATE TABLE IF NOT EXISTS written(n INTEGER PRIMARY KEY);"
while echo "INSERT INTO written DEFAULT VALUES;"; do usleep 1000; done; } | ${SQLITE} /data/app.db`;

async function saveDatabase({ life }: LifeContext): Promise<void> {
  await life.createWorkload("database", running({ cmd: "/bin/busybox", args: ["sh", "-c", WRITES_ROWS] }));
  const claim = await life.claim("rows", "database", true);
  const { instanceId } = claim.status ?? {};
  const ask = (pod: string | undefined, query: string) =>
    life.run(pod, `${SQLITE} -cmd ".timeout 5000" /data/app.db "${query}"`);
  await life.run(instanceId, `until [ "$($b stat -c %s /data/app.db-wal)" -gt 200000 ]; do $b usleep 100000; done`);
  const count = Number(await ask(instanceId, "SELECT count(*) FROM written"));
  assert.ok(count > 0);
  await life.release(claim);
  const next = await life.claim("rows", "database", true);
  const isWhole = `SELECT count(*) >= ${count}, count(*) = max(n) FROM written`;
  assert.is(await ask(next.status?.instanceId, `PRAGMA integrity_check; ${isWhole}`), "ok\n1|1\n");
}

/** Counts requests in memory, and writes the count when the process exits. */
const COUNTS_REQUESTS = `let count = 0;
const server = require("node:http").createServer((request, response) => response.end(String(++count))).listen(8080);
process.on("SIGTERM", () => server.close(() => process.exit(0)));
process.on("exit", () => require("node:fs").writeFileSync("/data/count", String(count)));`;

async function loseDatabase({ life }: LifeContext): Promise<void> {
  const program = running({ cmd: "/bin/busybox", args: ["sh", "-c", WRITES_ROWS] });
  await life.createWorkload("database-lost", { ...program, filesystem: WITH_CHECKPOINTS });
  const claim = await life.claim("rows-lost", "database-lost", false);
  const ask = ({ status }: Claim, query: string) =>
    life.run(status?.instanceId, `${SQLITE} -cmd ".timeout 5000" /data/app.db "${query}"`);
  const wal = "/data/app.db-wal";
  await life.run(claim.status?.instanceId, `until [ "$($b stat -c %s ${wal})" -gt 200000 ]; do $b usleep 100000; done`);
  const count = Number(await ask(claim, "SELECT count(*) FROM written"));
  assert.ok(count > 0);
  await untilCheckpoint(life, claim);
  const next = await losePod(life, claim);
  const isWhole = `SELECT count(*) >= ${count}, count(*) = max(n) FROM written`;
  assert.is(await ask(next, `PRAGMA integrity_check; ${isWhole}`), "ok\n1|1\n");
}

async function saveAtExit({ life }: LifeContext): Promise<void> {
  await life.createWorkload("server", {
    ...running({ cmd: process.execPath, args: ["-e", COUNTS_REQUESTS] }),
    network: { ports: [8080] },
  });
  const claim = await life.claim("requests", "server", true);
  const { instanceId } = claim.status ?? {};
  for (const count of [1, 2]) assert.is(await life.run(instanceId, "$b wget -qO- http://127.0.0.1:8080/"), `${count}`);
  await life.release(claim);
  const next = await life.claim("requests", "server", true);
  assert.is(await life.run(next.status?.instanceId, "$b cat /data/count"), "2");
}

export const programCases: readonly Case<LifeContext>[] = [
  ["a release keeps each committed row of SQLite with a write-ahead log, whose writer never rests", saveDatabase],
  ["a checkpoint of that is whole, and a lost pod costs no row from before it", loseDatabase],
  ["a release keeps what a Node server writes in its exit handler", saveAtExit],
];
