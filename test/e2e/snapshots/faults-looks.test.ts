// @limit 1800
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { lifeSuite } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";
import { isActive } from "./many-bytes.ts";

const TENANTS = ["ann", "bob", "carol"];

const test = lifeSuite("a helper pod that is lost while archives are looked for", {
  name: "looks",
  async prepare(life) {
    await life.createWorkload("keeps");
    await life.createPool("keeps", "keeps", 2);
    await Promise.all(TENANTS.map((tenant) => life.keep(tenant, "keeps", `of-${tenant}`)));
  },
});

/** Ends when no restore waits in the pod any more. */
const noneWaits = `for try in $($b seq 1 600); do $b ps | $b grep -q "answer [t]here" || exit 0; $b usleep 100000; done; $b ps; exit 1`;

/** Each tenant with files gets its own, and one without them gets none; what they release is there the next time. */
async function checkAll(life: Lifecycle, begun: readonly Claim[]): Promise<void> {
  await Promise.all(
    begun.map(async (claim) => {
      const active = await life.untilClaim(claim, "to be Active", isActive);
      const { tenantId } = claim.spec;
      if (TENANTS.includes(tenantId)) {
        assert.match(active.status?.source ?? "", /\+data$/);
        assert.is(await life.kept(active), `of-${tenantId}\n`);
      } else {
        assert.not.match(active.status?.source ?? "", /data/);
        assert.is(await life.run(active.status?.instanceId, "$b ls -A /data"), "");
      }
      await life.run(active.status?.instanceId, noneWaits);
      await life.release(active);
    }),
  );
}

function begin(life: Lifecycle, newcomer: string): Promise<Claim[]> {
  return Promise.all([...TENANTS, newcomer].map((tenant) => life.createClaim(tenant, "keeps", true)));
}

test("killed between looks: the next ones find what is there", async ({ life, faults }) => {
  await checkAll(life, await begin(life, "new-0"));
  await faults.killHelper();
  await checkAll(life, await begin(life, "new-1"));
});

test("killed while looks are under way: no tenant with files is taken for one without", async ({ life, faults }) => {
  // The session is open since the looks before, and is frozen before it can answer.
  await faults.freezeHelper();
  const begun = await begin(life, "new-2");
  // A claim that looks for nothing is through, so the others have been asked for.
  const other = await life.claim("no-files", "keeps", false);
  for (const claim of begun) {
    assert.is.not((await life.find(claim))?.status?.phase, "Active", "whether it has files is not known yet");
    assert.equal(await faults.podsOf(claim), []);
  }
  await faults.killHelper();
  await faults.thawHelper();
  await checkAll(life, [...begun, other]);
});

test("hanging for longer than a look waits: the claims wait, and get their files when it goes on", async (context) => {
  const { life, faults } = context;
  await faults.freezeHelper();
  const begun = await begin(life, "new-3");
  for (const claim of begun) {
    const waiting = await life.untilClaim(
      claim,
      "to say what it waits for",
      (status) => status?.reason === "SnapshotsUnavailable",
    );
    assert.is(waiting.status?.phase, "Pending");
    assert.equal(await faults.podsOf(claim), []);
  }
  await faults.thawHelper();
  await checkAll(life, begun);
});

test("deleted, as for a new image: the session goes with it, and another is opened", async ({ life }) => {
  // Object storage has none.
  if (life.objects !== undefined) return;
  const { metadata } = await life.untilHelperRuns();
  await life.client.delete(pods, { namespace: NAMESPACE, name: SNAPSHOTS_NAME });
  const begun = await begin(life, "new-4");
  await checkAll(life, begun);
  assert.is.not((await life.untilHelperRuns()).metadata.uid, metadata.uid);
});

test.run();
