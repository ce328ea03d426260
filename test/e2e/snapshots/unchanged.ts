import { execFileSync } from "node:child_process";
import { statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { TIMES_OF_MAPPED_FILES } from "../../../operator/snapshots/pods/list-trust.ts";
import type { Case } from "../../at-once.ts";
import type { LifeContext } from "./life-suite.ts";
import { idleProgram, type Lifecycle } from "./lifecycle.ts";

const FILL = `cd /data; mkdir -p a/b; for i in $($b seq 200); do echo "file $i" > a/file-$i; done
$b dd if=/dev/urandom of=random bs=64k count=80 2>/dev/null; $b ln -s random link; $b ln random hard; chmod 640 a/file-7`;
const DIGEST = `cd /data; { $b find . | $b sort; $b find . -type f | $b sort | $b xargs $b sha256sum; } | $b sha256sum`;

/** Fills and releases; then claims with the files, does something, and releases. */
async function session(
  { life }: LifeContext,
  tenantId: string,
  act: (pod: string | undefined) => Promise<unknown>,
  workload: "cold" | "held" = "cold",
): Promise<{ isSaved: boolean; isPart: boolean; digests: string[] }> {
  const archive = join(life.volumeFolder, tenantId, `${workload}.tar.gz`);
  const claim = async () => {
    if (workload === "held") await life.untilPool(workload, 1);
    return await life.claim(tenantId, workload, true);
  };
  const first = await claim();
  await life.run(first.status?.instanceId, FILL);
  await life.release(first);
  const before = statSync(archive).ino;
  const second = await claim();
  assert.is(second.status?.source, workload === "held" ? "pool+data" : "cold+data");
  const restored = await life.run(second.status?.instanceId, DIGEST);
  await act(second.status?.instanceId);
  const left = await life.run(second.status?.instanceId, DIGEST);
  await life.release(second);
  const isSaved = statSync(archive).ino !== before;
  const [firstEntry] = execFileSync("tar", ["-tzf", archive], { encoding: "utf8" }).split("\n");
  const third = await claim();
  assert.is(await life.run(third.status?.instanceId, DIGEST), left, "the next session has what this one left");
  await life.release(third);
  // Where all files were read, their folder comes first; else what has changed comes last, with all folders above.
  return { isSaved, isPart: firstEntry !== "data/", digests: [restored, left] };
}

/** Whether the file system of the pods shows what has changed. */
function isBelieved({ life }: LifeContext): boolean {
  return TIMES_OF_MAPPED_FILES.has(statfsSync(life.volumeFolder).type.toString(16));
}

/** A pool whose pods are held until they are claimed. */
export async function prepareHeld(life: Lifecycle): Promise<void> {
  await life.createWorkload("held", { entrypoint: { ...idleProgram(), start: "OnClaim" } });
  await life.createPool("held", "held", 1);
}

/** Files that nobody changed, of a workload `cold`. */
export const unchangedCases: readonly Case<LifeContext>[] = [
  [
    "a session that only reads writes no archive, and neither does the one after it",
    async (context) => {
      const { isSaved } = await session(context, "reads", async () => undefined);
      assert.is(isSaved, !isBelieved(context));
    },
  ],
  [
    "a byte that is changed in place, with all times set back, is saved",
    async (context) => {
      const { isSaved, isPart, digests } = await session(context, "hides", (pod) =>
        context.life.run(
          pod,
          `cd /data/a; t=$($b stat -c %Y file-9); d=$($b stat -c %Y .); echo "File 9" > file-9; $b touch -d @$t file-9; $b touch -d @$d .`,
        ),
      );
      assert.equal([isSaved, isPart], [true, isBelieved(context)]);
      assert.is.not(digests[0], digests[1]);
    },
  ],
  [
    "of a session in a pod that was held until its claim, only what has changed is read",
    async (context) => {
      const { isSaved, isPart } = await session(
        context,
        "holds",
        (pod) => context.life.run(pod, "cd /data; echo more >> a/file-3; $b rm a/file-4; $b mv a moved"),
        "held",
      );
      assert.equal([isSaved, isPart], [true, isBelieved(context)]);
    },
  ],
  [
    "a file that takes another's name and times is saved",
    async (context) => {
      const { isSaved } = await session(context, "swaps", (pod) =>
        context.life.run(pod, "cd /data/a; $b cp -p file-10 /data/x; $b mv file-11 file-10; $b mv /data/x file-11"),
      );
      assert.is(isSaved, true);
    },
  ],
];

/** Nothing of the others may be under way: it kills the operator. */
export async function saveAllAfterRestart(context: LifeContext): Promise<void> {
  const { life } = context;
  const { isSaved } = await session(context, "follows", async () => {
    await life.killOperator();
    await life.startOperator();
  });
  assert.is(isSaved, true);
}
