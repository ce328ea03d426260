import * as assert from "uvu/assert";
import type { Claim } from "../../crds/claim.ts";

/** The steps of a claim's timeline, which are in the order of their times. */
export function stepsOf({ status }: Claim): string[] {
  const timeline = status?.timeline ?? [];
  const times = timeline.map(({ at }) => Date.parse(at));
  assert.equal(
    times,
    [...times].sort((a, b) => a - b),
    JSON.stringify(timeline),
  );
  return timeline.map(({ step }) => step);
}
