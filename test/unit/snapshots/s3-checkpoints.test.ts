import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { s3Layout } from "../../../crds/snapshots/s3/s3-layout.ts";
import type { S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { errorOf } from "../../error-of.ts";
import { checkpoint, shown, testCheckpoints } from "./checkpoint-contract.ts";
import { testNames } from "./names-contract.ts";
import { type SimulatedS3, simulatedS3Store, startSimulatedS3 } from "./simulated-s3.ts";
import { call, key, listAll, load, namesOf, save } from "./store-contract.ts";

const test = suite<{ server: SimulatedS3; store: S3Store }>("checkpoints in simulated object storage");
const layout = s3Layout("");
const LONG_AGO = "2026-01-01T00:00:00.000Z";

test.before.each(async (context) => {
  context.server = await startSimulatedS3();
  context.store = simulatedS3Store(context.server);
});
test.after.each(async ({ server, store }) => {
  store.close();
  await server.close();
});

testCheckpoints(test);
testNames(test);

function archives({ objects }: SimulatedS3): string[] {
  return [...objects.keys()].filter((name) => name.startsWith(layout.archives));
}

/** Makes all objects old. */
function age({ objects }: SimulatedS3): void {
  for (const [name, object] of objects) objects.set(name, { ...object, at: LONG_AGO });
}

test("no name of a session has a head that the list of names takes for one with a newest archive", async (context) => {
  const { store } = context;
  await save(store, "marks the store", { tenantId: "b", workloadRef: "w" });
  for (let length = 1; length <= 50; length += 1) {
    await checkpoint(store, `of ${length}`, { session: "é".repeat(length) });
    assert.equal(await namesOf(store), [{ tenantId: "b", workloadRef: "w" }], `${length} letters`);
    await store.delete(key, call);
  }
});

test("what no head names is deleted, and never a checkpoint", async ({ store, server }) => {
  await save(store, "of 1");
  await checkpoint(store, "running", { session: "a" });
  const alone = { ...key, workloadRef: "alone" };
  await checkpoint(store, "alone", { session: "a", to: alone });
  const unnamed = layout.archive(alone, "20260101T000000Z-0123456789abcdef.tar.gz");
  server.objects.set(unnamed, { body: Buffer.from("x"), etag: '"x"', commit: "", at: LONG_AGO });
  age(server);
  await store.tidy(call);
  assert.is(server.objects.has(unnamed), false);
  assert.equal(
    [await shown(store), await shown(store, alone)],
    [
      ["of 1", "running (a)"],
      ["-", "alone (a)"],
    ],
  );
});

test("what a checkpoint replaces is erased, also if its own write was not necessary", async ({ store, server }) => {
  await save(store, "of 1");
  for (const content of ["first", "second", "of 1", "second"]) await checkpoint(store, content, { session: "a" });
  assert.is(archives(server).length, 2);
  await checkpoint(store, "second", { session: "b" });
  assert.is(archives(server).length, 2);
  assert.equal(await shown(store), ["of 1", "second"]);
});

test("a head with a checkpoint of another key is refused", async ({ store, server }) => {
  await checkpoint(store, "running", { session: "a" });
  const head = server.objects.get(layout.head(key));
  const other = { ...key, tenantId: "other" };
  if (head !== undefined) server.objects.set(layout.head(other), head);
  const error = await errorOf(store.look(other, call));
  assert.ok(error instanceof ArchiveError && error.reason === "Foreign", String(error));
});

test("a program of an earlier version sees what was saved, and a checkpoint only after the next save", async (context) => {
  const { store, server } = context;
  await save(store, "of 1");
  await checkpoint(store, "running", { session: "a" });
  const headOf = () => JSON.parse(String(server.objects.get(layout.head(key))?.body)) as { versions: unknown[] };
  assert.is(headOf().versions.length, 1);
  await save(store, "of 2", key, { keep: "replaced" });
  assert.is(headOf().versions.length, 3);
  assert.is((await listAll(store, { versions: true })).length, 3);
  assert.is(await load(store), "of 2");
});

test.run();
