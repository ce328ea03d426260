// @runtimes bun node deno
import { createHash, createHmac } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Actor, root } from "../../../edge/access/actor.ts";
import { tokenRef } from "../../../edge/access/token-ref.ts";
import { createAccessTokens } from "../../../edge/e2b/access-token.ts";
import { createEnvdCheck } from "../../../edge/e2b/envd/authenticate.ts";
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

test("a ServiceAccount's token ends within 10 minutes, at the front door too, and its signatures with it", async () => {
  const clock = manualClock();
  const endsAt = clock.now() + 365 * 86_400_000;
  const account = { kind: "serviceAccount", id: "system:serviceaccount:apps:web" } as const;
  const settings = "0123456789abcdef";
  const ref = tokenRef({ ...account, role: "platform", tenants: undefined }, { settings, endsAt });
  const holder = { ...account, ref };
  const tokens = createAccessTokens({ signingKey, issued: { holds: () => true }, clock });
  const readAtDoor = await tokens.reader();
  const token = await tokens.sign(sandbox, holder);
  const isValid = async () => {
    const [actor, atDoor] = [await tokens.read(sandbox, token), readAtDoor(sandbox, token)];
    assert.is(actor === undefined, atDoor === undefined);
    return actor !== undefined;
  };
  const actor = await tokens.read(sandbox, token);
  assert.ok((actor?.endsAt ?? endsAt) <= clock.now() + 600_000, "what it opens ends with it");
  const check = createEnvdCheck({
    ...{ tokens, clock, holderOf: () => holder, admit: () => undefined, checkPage: () => undefined },
    authenticate: () => Promise.reject(new Error("the caller has no key")),
  });
  const signed = `v1_${createHash("sha256").update(`/a:read::${token}`).digest("base64").replace(/=+$/, "")}`;
  const isSigned = async () => {
    const url = `http://x/files?path=/a&signature=${encodeURIComponent(signed)}`;
    const request = new Request(url, { headers: { "e2b-sandbox-id": sandboxId(sandbox) ?? "" } });
    const signer = await check(request, {}).catch(() => undefined);
    return signer?.actor.id === account.id;
  };
  assert.equal([await isValid(), await isSigned()], [true, true]);
  await clock.pass(300_000);
  assert.equal([await isValid(), await isSigned()], [true, true], "it is valid for 5 minutes at least");
  assert.is.not(await tokens.sign(sandbox, holder), token);
  await clock.pass(300_000);
  assert.equal([await isValid(), await isSigned()], [false, false]);
  const [payload = ""] = token.split(".");
  const { e: _, ...endless } = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
  const text = Buffer.from(JSON.stringify(endless)).toString("base64url");
  const mac = createHmac("sha256", await signingKey())
    .update(text)
    .digest("base64url");
  assert.is(await tokens.read(sandbox, `${text}.${mac}`), undefined);
});

test.run();
