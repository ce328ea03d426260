import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  formatTraceparent,
  parseCarried,
  parseTraceparent,
  releaseTrace,
} from "../../../crds/tracing/trace-context.ts";

const test = suite("trace context");
const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";
const VALID = `00-${traceId}-${spanId}-01`;

test("traceparent is read as the recommendation says", () => {
  assert.equal(parseTraceparent(VALID), { traceId, spanId, sampled: true });
  assert.equal(parseTraceparent(`00-${traceId}-${spanId}-00`)?.sampled, false);
  // Flags that are not known are no error, and neither is a later version with more behind.
  assert.equal(parseTraceparent(`00-${traceId}-${spanId}-fe`)?.sampled, false);
  assert.equal(parseTraceparent(`cc-${traceId}-${spanId}-03-what-comes`)?.sampled, true);
});

test("what is not valid counts as no header", () => {
  const wrong = [
    null,
    undefined,
    "",
    `ff-${traceId}-${spanId}-01`,
    `00-${"0".repeat(32)}-${spanId}-01`,
    `00-${traceId}-${"0".repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `00-${traceId}-${spanId}-01-more`,
    `00-${traceId}-${spanId}`,
    `00-${traceId.slice(1)}-${spanId}-01`,
    ` ${VALID}`,
    `${VALID}\n`,
    `${VALID}, ${VALID}`,
    `cc-${traceId}-${spanId}-01-${"x".repeat(300)}`,
  ];
  for (const header of wrong) assert.is(parseTraceparent(header), undefined, String(header));
});

test("an annotation counts only as this project writes it", () => {
  for (const sampled of [true, false]) {
    const context = { traceId, spanId, sampled };
    assert.equal(parseCarried(formatTraceparent(context)), context);
  }
  for (const text of [undefined, "", "x", `00-${traceId}-${spanId}-03`, `cc-${traceId}-${spanId}-01-x`, `${VALID} `])
    assert.is(parseCarried(text), undefined, text);
});

test("a release's ids follow from the claim's uid, and are valid", () => {
  const ids = releaseTrace("u1");
  assert.equal(releaseTrace("u1"), ids);
  assert.is.not(releaseTrace("u2").traceId, ids.traceId);
  assert.equal(parseTraceparent(formatTraceparent({ ...ids, sampled: true })), { ...ids, sampled: true });
});

test.run();
