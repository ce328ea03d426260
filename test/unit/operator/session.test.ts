import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { givenFiles } from "../../../operator/claim/session.ts";
import { archive } from "../snapshots/helper-objects.ts";

function claim(spec: Partial<Claim["spec"]> = {}, status: Partial<ClaimStatus> = {}): Claim {
  return {
    metadata: { name: "c", uid: "own" },
    spec: { tenantId: "t", workloadRef: "w", ...spec },
    status: { phase: "Pending", ...status },
  };
}

test("only a checkpoint of the claim's own session continues it", () => {
  const { sha256 } = archive;
  const continues = "c".repeat(64);
  const own = { ...archive, kind: "checkpoint", session: "own" } as const;
  const cases: [Claim, Parameters<typeof givenFiles>[1], ReturnType<typeof givenFiles>][] = [
    [claim(), undefined, { resumedFrom: undefined }],
    [claim({ resume: true }), undefined, { resumedFrom: "none" }],
    [claim({ resume: true }), archive, { resumedFrom: sha256 }],
    [claim(), own, { resumedFrom: undefined, restoredFrom: sha256 }],
    [claim({ resume: true }), { ...own, continues }, { resumedFrom: continues, restoredFrom: sha256 }],
    [claim({ resumeVersion: sha256 }), { ...own, session: "ended", continues }, { resumedFrom: sha256 }],
    [
      claim({}, { resumedFrom: continues }),
      { ...archive, checkpointOf: ["ended", "own"] },
      { resumedFrom: continues, restoredFrom: sha256 },
    ],
    [claim({}, { sessionStart: 2 }), own, { resumedFrom: sha256 }],
  ];
  for (const [of, found, given] of cases) assert.equal(givenFiles(of, found), given);
});

test.run();
