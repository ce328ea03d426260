import { suite } from "uvu";
import * as assert from "uvu/assert";
import { requireContact } from "../../../edge/cluster/require-contact.ts";
import { HttpError } from "../../../edge/http/http-error.ts";

const test = suite("requireContact");
const kind = (contact: boolean) => ({ inContact: () => contact });

test("one kind out of contact is enough for a 503", () => {
  requireContact(kind(true), kind(true));
  for (const kinds of [[kind(false)], [kind(true), kind(false)], [kind(false), kind(true)]]) {
    assert.throws(
      () => requireContact(...kinds),
      (error: unknown) => error instanceof HttpError && error.status === 503,
    );
  }
});

test.run();
