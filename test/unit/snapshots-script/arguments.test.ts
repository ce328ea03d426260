import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseArguments } from "../../../scripts/snapshots/arguments.ts";

const env = { TENANCY_SNAPSHOT_REGION: "eu-central-1", AWS_ACCESS_KEY_ID: "id" };
const words = ["copy", "--from", "volume", "--to", "s3://bucket/prefix"];

test("a volume is read through the API server, unless told otherwise, and a bucket as the variables say", () => {
  const parsed = parseArguments(words, env);
  assert.ok(parsed.command === "copy");
  const { from, to, deletes, namespace } = parsed;
  assert.equal([from.place, deletes, namespace], [{ kind: "volume", access: "api-server" }, false, "tenancy"]);
  assert.ok(to.place.kind === "s3" && to.place.region === "eu-central-1" && to.env.AWS_ACCESS_KEY_ID === "id");
  const direct = parseArguments(words, { ...env, TENANCY_SNAPSHOT_ACCESS: "direct" });
  assert.ok(direct.command === "copy" && direct.from.place.kind === "volume");
  assert.is(direct.from.place.access, "direct");
});

test("each of two buckets has the variables of its own file", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-arguments-"));
  const file = join(folder, "target.env");
  writeFileSync(file, "# elsewhere\nTENANCY_SNAPSHOT_ENDPOINT=https://objects.example\nAWS_ACCESS_KEY_ID='other'\n");
  const given = ["copy", "--from", "s3://a-bucket", "--to", "s3://b-bucket", "--to-env", file, "--delete"];
  const parsed = parseArguments(given, env);
  rmSync(folder, { recursive: true });
  assert.ok(parsed.command === "copy" && parsed.deletes);
  const { from, to } = parsed;
  assert.ok(from.place.kind === "s3" && to.place.kind === "s3");
  assert.equal([from.place.endpoint, from.env.AWS_ACCESS_KEY_ID], ["https://s3.eu-central-1.amazonaws.com", "id"]);
  assert.equal([to.place.endpoint, to.env.AWS_ACCESS_KEY_ID], ["https://objects.example", "other"]);
});

test("says what is wrong", () => {
  for (const [given, says] of [
    [["move"], /Cannot do "move"/],
    [["copy", "--to", "volume"], /Cannot copy without --from/],
    [["copy", "--from", "volume", "--to", "volume"], /Cannot copy the volume to itself/],
    [["copy", "--from", "volume", "--to", "gs://bucket"], /Cannot use --to gs:\/\/bucket: .* must be volume, or s3/],
    [[...words, "more"], /Cannot make sense of "more"/],
    [[...words, "--fast"], /--fast/],
  ] as const) {
    assert.throws(() => parseArguments(given, env), says);
  }
  assert.throws(() => parseArguments(words, {}), /TENANCY_SNAPSHOT_REGION is unset/);
  assert.equal(parseArguments([], env), { command: "help" });
});

test.run();
