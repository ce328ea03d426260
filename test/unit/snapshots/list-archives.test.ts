import { linkSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection } from "../../../crds/snapshots/store-connection.ts";
import { MARK } from "../../../crds/snapshots/store-protocol.ts";
import { errorOf } from "../../error-of.ts";
import { call, listAll } from "./store-contract.ts";
import { TOKEN } from "./store-server.ts";
import { volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("the list of archives");
const SHA256 = "ab".repeat(32);

function put(root: string, tenantId: string, content = "an archive"): void {
  mkdirSync(join(root, tenantId), { recursive: true });
  writeFileSync(recordOf(root, tenantId), record(tenantId, "app", content.length));
  writeFileSync(archiveOf(root, tenantId), content);
}

function record(tenantId: string, workloadRef: string, sizeBytes: number): string {
  const metadata = {
    ...{ sha256: SHA256, sizeBytes, tenantId, workloadRef, uid: 1, gid: 1 },
    ...{ createdAt: "2026-11-21T12:00:00.000Z", entries: 1, contentBytes: 10, overlayDirs: ["/dätä"] },
  };
  return `${JSON.stringify(metadata)}\n`;
}

const archiveOf = (root: string, tenantId: string): string => join(root, tenantId, "app.tar.gz");
const recordOf = (root: string, tenantId: string): string => `${archiveOf(root, tenantId)}.${SHA256.slice(0, 16)}.json`;

test("of an empty volume is empty, and of one that is not there fails", async ({ root, store }) => {
  assert.equal(await listAll(store, { versions: true }), []);
  rmSync(root, { recursive: true });
  assert.match(String(await errorOf(listAll(store, { versions: true }))), /ENOENT/);
});

test("that is cut off, or comes without its end, is an error", async () => {
  for (const body of ["", '{"tenantId":"a"', '{"end":1}\n', '{"tenantId":"a"}\n']) {
    const server = createServer((_, response) => {
      response.setHeader(MARK, "1");
      response.write(body);
      response.end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const endpoint = async () => ({ secure: false, options: { host: "127.0.0.1", port }, token: TOKEN });
    const store = createStoreClient({ connection: createStoreConnection({ endpoint }) });
    const error = await errorOf(listAll(store, { versions: true }));
    assert.ok(error instanceof NetworkError || error instanceof SyntaxError, `${body}: ${error}`);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("of a server of an earlier version, which answers all that it has, has what was asked for alone", async () => {
  const keys = ["a/app", "stranger/app", "b/app", "b/other", "c/app"].map((path) => {
    const [tenantId = "", workloadRef = ""] = path.split("/");
    return { tenantId, workloadRef, sizeBytes: 1, usedAt: "2026-11-21T12:00:00.000Z" };
  });
  const lines = [...keys, { end: keys.length }].map((line) => `${JSON.stringify(line)}\n`).join("");
  const server = createServer((_, response) => void response.setHeader(MARK, "1").end(lines));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const endpoint = async () => ({ secure: false, options: { host: "127.0.0.1", port }, token: TOKEN });
  const store = createStoreClient({ connection: createStoreConnection({ endpoint }) });
  const shown = (items: readonly SnapshotKey[]) =>
    items.map(({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`);
  const one = { limit: 1, tenantId: "nobody", workloadRef: "app" };
  const behind = { limit: 9, workloadRef: "app", after: { tenantId: "b", workloadRef: "app" }, versions: true };
  const found = [
    await store.names(one, call),
    await store.names({ ...one, tenantId: "b" }, call),
    await store.list(behind, call),
  ].map(({ items }) => shown(items));
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  assert.equal(found, [[], ["b/app"], ["c/app", "stranger/app"]]);
});

test("tells archives without what was recorded of them, and leaves out what is no archive", async ({ root, store }) => {
  for (const tenant of ["a", "lost", "grown", "unparsable", "lost+found", "-not-a-tenant"]) put(root, tenant);
  rmSync(recordOf(root, "lost"));
  writeFileSync(archiveOf(root, "grown"), "another size altogether");
  writeFileSync(recordOf(root, "unparsable"), "{}\n{not JSON");
  writeFileSync(join(root, "top.tar.gz"), "no tenant's");
  mkdirSync(join(root, "a", "deep"));
  writeFileSync(join(root, "a", "deep", "x.tar.gz"), "too deep");
  writeFileSync(join(root, "a", "new\nline.tar.gz"), "no name of a workload");
  const entries = await listAll(store, { versions: true });
  const shown = entries.map(({ tenantId, sizeBytes, metadata }) => `${tenantId} ${sizeBytes} ${metadata?.sizeBytes}`);
  assert.equal(shown.sort(), ["a 10 10", "grown 23 undefined", "lost 10 undefined", "unparsable 10 undefined"]);
});

test("leaves out no archive behind folders of older versions that are empty", async ({ root, store }) => {
  put(root, "a");
  for (const workload of ["aa", "ab", "ac"]) mkdirSync(join(root, "a", ".versions", workload), { recursive: true });
  const { items } = await store.list({ limit: 1, versions: true }, call);
  assert.equal(
    items.map(({ workloadRef }) => workloadRef),
    ["app"],
  );
});

test("of two thousand archives comes in one go", async ({ folder, root, store }) => {
  // One file under many names, since making so many would be most of the work.
  const archive = join(folder, "archive");
  writeFileSync(archive, "an archive");
  for (let tenant = 0; tenant < 20; tenant += 1) {
    mkdirSync(join(root, `t${tenant}`));
    for (let workload = 0; workload < 100; workload += 1) {
      const path = join(root, `t${tenant}`, `app${workload}.tar.gz`);
      writeFileSync(`${path}.${SHA256.slice(0, 16)}.json`, record(`t${tenant}`, `app${workload}`, 10));
      linkSync(archive, path);
    }
  }
  const started = performance.now();
  const entries = await listAll(store, { versions: true });
  console.log(`note: 2000 archives listed in ${(performance.now() - started).toFixed(0)} ms`);
  assert.is(entries.filter(({ metadata }) => metadata !== undefined).length, 2000);
});

test.run();
