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

/** How long the start of an Active claim's pod took, from its creation. */
export function startMs({ status }: Claim): number {
  const atOf = (step: string) => Date.parse(status?.timeline?.find((one) => one.step === step)?.at ?? "");
  return atOf("Active") - atOf("Bound");
}
