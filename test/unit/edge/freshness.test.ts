// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { requireFresh } from "../../../edge/cluster/freshness.ts";
import { HttpError } from "../../../edge/http/http-error.ts";

const test = suite("requireFresh");
const kind = (contact: boolean) => ({ isFresh: () => contact });

test("one kind out of contact is enough for a 503", () => {
  requireFresh(kind(true), kind(true));
  for (const kinds of [[kind(false)], [kind(true), kind(false)], [kind(false), kind(true)]]) {
    assert.throws(
      () => requireFresh(...kinds),
      (error: unknown) => error instanceof HttpError && error.status === 503,
    );
  }
});

test.run();
