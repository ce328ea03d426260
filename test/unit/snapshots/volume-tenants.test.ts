import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { tenantOrder } from "../../../crds/snapshots/store-pages.ts";
import { createVolumeTenants, type VolumeTenants } from "../../../operator/snapshots/helper/store/volume-tenants.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";

const test = suite<{ root: string }>("createVolumeTenants");
test.before.each((context) => {
  context.root = mkdtempSync(join(tmpdir(), "tenancy-tenants-"));
});
test.after.each(({ root }) => rmSync(root, { recursive: true, force: true }));

/** More than are read again for each page. */
const MANY = 4100;

function makeTenants(root: string, count: number): string[] {
  const names = Array.from({ length: count }, (_, index) => `t-${(index * 7919) % count}`);
  for (const name of names) mkdirSync(join(root, name));
  return names.sort((a, b) => (tenantOrder(a) < tenantOrder(b) ? -1 : 1));
}

async function all(tenants: VolumeTenants, most: number): Promise<string[]> {
  const seen: string[] = [];
  for (;;) {
    const some = await tenants.behind(seen.at(-1), most);
    assert.ok(some.length <= most);
    if (some.length === 0) return seen;
    seen.push(...some);
  }
}

test("gives all tenants in order, whatever it reads at once, and no other entries", async ({ root }) => {
  writeFileSync(join(root, ".marked"), "");
  mkdirSync(join(root, "lost+found"));
  const expected = makeTenants(root, 200);
  for (const windowNames of [1, 7, 199, 200, 201, 1000]) {
    const tenants = createVolumeTenants({ root, windowNames });
    for (const most of [3, 64]) assert.equal(await all(tenants, most), expected, `${windowNames} by ${most}`);
  }
});

test("a tenant that comes is there at once, and one whose folder went is passed over", async ({ root }) => {
  const expected = makeTenants(root, MANY);
  const tenants = createVolumeTenants({ root, windowNames: 1000 });
  assert.equal(await tenants.behind(undefined, 2), expected.slice(0, 2));
  for (const name of ["a", "t-00", "z"]) {
    mkdirSync(join(root, name));
    tenants.note(name);
  }
  const seen = await all(tenants, 500);
  assert.equal(
    seen,
    ["a", ...expected, "t-00", "z"].sort((a, b) => (tenantOrder(a) < tenantOrder(b) ? -1 : 1)),
  );
});

test("a tenant that comes while the folder is read is not left out", async ({ root }) => {
  makeTenants(root, MANY);
  const tenants = createVolumeTenants({ root, windowNames: 1000 });
  const reading = tenants.behind(undefined, 1);
  tenants.note("a");
  assert.equal(await reading, ["a"]);
});

test("what another program has put there comes with the next reading, a minute later at most", async ({ root }) => {
  makeTenants(root, MANY);
  let now = 0;
  const tenants = createVolumeTenants({ root, nowMs: () => now });
  await tenants.behind(undefined, 1);
  mkdirSync(join(root, "a"));
  assert.equal(await tenants.behind(undefined, 1), ["t-0"]);
  now = 61_000;
  // This one has it read again, for those that come.
  await tenants.behind(undefined, 1);
  await eventually(async () => (await tenants.behind(undefined, 1))[0] === "a");
});

test("a volume that cannot be read is an error, and not one without tenants", async ({ root }) => {
  rmSync(root, { recursive: true });
  assert.match(String(await errorOf(createVolumeTenants({ root }).behind(undefined, 1))), /ENOENT/);
});

test("a folder is a tenant's under its own name alone", async ({ root }) => {
  const tenants = createVolumeTenants({ root });
  for (const name of ["alice", "Bob", "42"]) mkdirSync(join(root, name));
  mkdirSync(join(root, "bOB"));
  assert.equal(await Promise.all(["alice", "Bob", "bOB", "42", "none"].map(tenants.has)), [
    true,
    true,
    true,
    true,
    false,
  ]);
});

test.run();
