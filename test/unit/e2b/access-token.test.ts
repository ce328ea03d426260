// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Actor, root } from "../../../edge/access/actor.ts";
import { tokenRef } from "../../../edge/access/token-ref.ts";
import { createAccessTokens } from "../../../edge/e2b/access-token.ts";
import { readSandboxId, sandboxId } from "../../../edge/e2b/sandbox-id.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("sandbox ids and access tokens");

const sandbox = { workloadRef: "base", tenantId: "acme-1" };
const signingKey = async () => Buffer.alloc(32, "k");

test("an id says which claim the sandbox is, and no other text is one", () => {
  for (const key of [sandbox, { workloadRef: "a.b", tenantId: "A_b--c.d" }]) {
    assert.equal(readSandboxId(sandboxId(key) ?? ""), key);
  }
  assert.is(sandboxId({ workloadRef: "a--b", tenantId: "t" }), undefined);
  for (const text of ["", "base", "--acme", "base--", "base--a/b", "../x--t", "Base--t", `base--${"t".repeat(64)}`]) {
    assert.is(readSandboxId(text), undefined, text);
  }
});

test("a token reaches its sandbox only, for as long as the key that asked for it", async () => {
  const ended = new AbortController();
  const key: Actor = { ...root, kind: "key", id: "k1", ref: "k1-0", role: "platform", ended: ended.signal };
  const valid = new Set(["k1-0"]);
  const keys = { actorWithRef: (ref: string) => (valid.has(ref) ? key : undefined) };
  const tokens = createAccessTokens({ signingKey, keys, clock: manualClock() });
  const token = await tokens.sign(sandbox, key);
  assert.is(await tokens.sign(sandbox, key), token);
  const actor = await tokens.read(sandbox, token);
  assert.equal([actor?.role, actor?.tenants, actor?.workloads], ["tenant", ["acme-1"], ["base"]]);
  assert.is(actor?.ended, ended.signal);
  for (const other of [
    { ...sandbox, tenantId: "acme" },
    { ...sandbox, workloadRef: "other" },
  ]) {
    assert.is(await tokens.read(other, token), undefined);
  }
  for (const wrong of ["", "x", token.slice(1), `${token}A`, token.replace(/.$/, (last) => (last === "A" ? "B" : "A"))])
    assert.is(await tokens.read(sandbox, wrong), undefined, wrong);
  const foreign = createAccessTokens({ signingKey: async () => Buffer.alloc(32, "x"), keys, clock: manualClock() });
  assert.is(await foreign.read(sandbox, token), undefined);
  valid.clear();
  assert.is(await tokens.read(sandbox, token), undefined);
});

test("a token that a person asked for ends with the person's own", async () => {
  const clock = manualClock();
  const endsAt = clock.now() + 60_000;
  const person = { kind: "person", id: "p", role: "platform", tenants: undefined } as const;
  const ref = tokenRef(person, { settings: "0123456789abcdef", endsAt });
  const held = new Set([ref]);
  const tokens = createAccessTokens({ signingKey, issued: { holds: (one) => held.has(one) }, clock });
  const token = await tokens.sign(sandbox, { ...person, ref });
  const actor = await tokens.read(sandbox, token);
  assert.equal([actor?.kind, actor?.id, actor?.role], ["person", "p", "tenant"]);
  held.clear();
  assert.is(await tokens.read(sandbox, token), undefined);
});

test.run();
