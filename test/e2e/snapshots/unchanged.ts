import { statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { TIMES_OF_MAPPED_FILES } from "../../../operator/snapshots/pods/unchanged-files.ts";
import type { Case } from "../../at-once.ts";
import type { LifeContext } from "./life-suite.ts";
import type { Lifecycle } from "./lifecycle.ts";

const FILL = `cd /data; mkdir -p a/b; for i in $($b seq 200); do echo "file $i" > a/file-$i; done
$b dd if=/dev/urandom of=random bs=64k count=8 2>/dev/null; $b ln -s random link; $b ln random hard; chmod 640 a/file-7`;
const DIGEST = `cd /data; { $b find . | $b sort; $b find . -type f | $b sort | $b xargs $b sha256sum; } | $b sha256sum`;

function archiveInode({ volumeFolder }: Lifecycle, tenantId: string): number {
  return statSync(join(volumeFolder, tenantId, "cold.tar.gz")).ino;
}

/** Fills and releases; then claims with the files, does something, and releases. */
async function session(
  { life }: LifeContext,
  tenantId: string,
  act: (pod: string | undefined) => Promise<unknown>,
): Promise<{ isSaved: boolean; digests: string[] }> {
  const first = await life.claim(tenantId, "cold", true);
  await life.run(first.status?.instanceId, FILL);
  await life.release(first);
  const before = archiveInode(life, tenantId);
  const second = await life.claim(tenantId, "cold", true);
  assert.is(second.status?.source, "cold+data");
  const restored = await life.run(second.status?.instanceId, DIGEST);
  await act(second.status?.instanceId);
  const left = await life.run(second.status?.instanceId, DIGEST);
  await life.release(second);
  const isSaved = archiveInode(life, tenantId) !== before;
  const third = await life.claim(tenantId, "cold", true);
  assert.is(await life.run(third.status?.instanceId, DIGEST), left, "the next session has what this one left");
  await life.release(third);
  return { isSaved, digests: [restored, left] };
}

/** Files that nobody changed, of a workload `cold`. */
export const unchangedCases: readonly Case<LifeContext>[] = [
  [
    "a session that only reads writes no archive, and neither does the one after it",
    async (context) => {
      const { isSaved } = await session(context, "reads", async () => undefined);
      const type = statfsSync(context.life.volumeFolder).type.toString(16);
      assert.is(isSaved, !TIMES_OF_MAPPED_FILES.has(type), `file system ${type}`);
    },
  ],
  [
    "a byte that is changed in place, with all times set back, is saved",
    async (context) => {
      const { isSaved, digests } = await session(context, "hides", (pod) =>
        context.life.run(
          pod,
          `cd /data/a; t=$($b stat -c %Y file-9); d=$($b stat -c %Y .); echo "File 9" > file-9; $b touch -d @$t file-9; $b touch -d @$d .`,
        ),
      );
      assert.is(isSaved, true);
      assert.is.not(digests[0], digests[1]);
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
