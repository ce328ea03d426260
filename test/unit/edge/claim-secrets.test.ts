import { test } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { active, claim, NAME, release, waiting } from "./claim-calls.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const VALUE = "planted ü";
const body = { workload: "app", secrets: { TOKEN: VALUE } };

function edgeOnClaim(): TestEdge {
  const edge = testEdge();
  edge.cluster.addWorkload("app", { entrypoint: { start: "OnClaim" } });
  return edge;
}

/** As an edge that has another API key. */
function withKey(edge: TestEdge, key: string): TestEdge {
  const other = testEdge({ secretsKey: key });
  for (const each of edge.cluster.all(claims)) other.cluster.add(claims, each);
  return other;
}

const made = ({ cluster }: TestEdge) => cluster.all(secrets);

async function activeClaim(edge: TestEdge): Promise<void> {
  const pending = claim(edge, body);
  await waiting(edge);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
}

test("the values are in a Secret of the claim, and nowhere else", async () => {
  const edge = edgeOnClaim();
  await activeClaim(edge);
  const { metadata, spec } = edge.cluster.claim(NAME);
  const [secret, ...more] = made(edge);
  assert.equal(more, []);
  assert.is(secret?.metadata.namespace, metadata.namespace);
  assert.equal(spec.inputs, { secretRef: { name: secret?.metadata.name } });
  assert.equal(secret?.data, { TOKEN: Buffer.from(VALUE).toString("base64") });
  const [owner] = secret?.metadata.ownerReferences ?? [];
  assert.equal([owner?.kind, owner?.name, owner?.uid], ["TenancyClaim", NAME, metadata.uid]);
  assert.not(JSON.stringify([metadata, spec, edge.log]).includes("planted"));
});

test("the same values join, others get 409 with their names", async () => {
  const edge = edgeOnClaim();
  await activeClaim(edge);
  const writes = edge.cluster.verbs().filter((verb) => verb === "create").length;
  for (const same of [body, { workload: "app" }]) assert.is((await claim(edge, same)).status, 201);
  assert.is(edge.cluster.verbs().filter((verb) => verb === "create").length, writes, "an Active claim has its Secret");
  for (const [given, differs] of [
    [{ secrets: { TOKEN: "other" } }, '(different: "secrets.TOKEN")'],
    [{ secrets: { TOKEN: VALUE, MORE: "other" } }, '(different: "secrets.MORE")'],
    [{ env: { A: "other" } }, '(different: "env.A", "secrets.TOKEN")'],
  ] as const) {
    const { status, error = "" } = await claim(edge, { workload: "app", ...given });
    assert.is(status, 409);
    assert.match(error, differs);
    assert.not(/planted|other value/.test(error));
  }
  const renewed = await claim(withKey(edge, "another"), body);
  assert.is(renewed.status, 409);
  assert.match(renewed.error ?? "", '(different: "API key")');
});

const cutOff = new NetworkError("cut off", { requestWasSent: true });

test("a Secret that was not created at once is created by the same call", async () => {
  const edge = edgeOnClaim();
  edge.cluster.onNext("create", cutOff, secrets);
  await activeClaim(edge);
  assert.is(made(edge).length, 1);
});

test("a call that joins needs no quota for the Secret that is there", async () => {
  const edge = edgeOnClaim();
  const first = claim(edge, body);
  await waiting(edge);
  edge.cluster.onNext("create", new ApiError("no quota", { status: 403, reason: "Forbidden" }), secrets);
  const second = claim(edge, body);
  await waiting(edge, 2);
  edge.cluster.setStatus(NAME, active);
  assert.equal(
    (await Promise.all([first, second])).map(({ status }) => status),
    [201, 201],
  );
});

test("a Secret that a call could not create is created by the next equal call", async () => {
  const edge = edgeOnClaim();
  for (const fault of [cutOff, cutOff]) edge.cluster.onNext("create", fault, secrets);
  assert.ok((await claim(edge, body)).status >= 500);
  assert.equal(made(edge), []);
  assert.is((await claim(edge, { ...body, secrets: { TOKEN: "other" } })).status, 409);
  assert.equal(made(edge), []);
  const pending = claim(edge, body);
  await waiting(edge);
  assert.is(made(edge)[0]?.metadata.name, edge.cluster.claim(NAME).spec.inputs?.secretRef?.name);
  edge.cluster.setStatus(NAME, active);
  assert.is((await pending).status, 201);
});

test("a claim whose Secret is refused does not stay", async () => {
  const edge = edgeOnClaim();
  edge.cluster.onNext("create", new ApiError("no quota", { status: 403, reason: "Forbidden" }), secrets);
  const { status, text } = await claim(edge, body);
  assert.ok(status >= 500, text);
  assert.ok(edge.cluster.verbs().includes("delete"));
  assert.is((await release(edge)).status, 200);
});

for (const [title, given, says] of [
  [
    "a name of the service",
    { secrets: { TENANCY_A: "planted" } },
    'body.secrets: "TENANCY_A" is a name of the service',
  ],
  ["no name of a variable", { secrets: { "a.b": "planted" } }, 'body.secrets: "a.b" is not the name of a variable'],
  [
    "a name that no Secret can have",
    { secrets: { ["A".repeat(254)]: "planted" } },
    "has 254 characters, of at most 253",
  ],
  ["a zero byte", { secrets: { A: "planted\0" } }, "body.secrets.A"],
  ["no text", { secrets: { A: 1 } }, "body.secrets.A: must be text"],
  ["no object", { secrets: ["planted"] }, "body.secrets: must be an object"],
  ["the name of another variable", { env: { A: "" }, secrets: { A: "planted" } }, 'body.secrets: "A" is in env too'],
  [
    "more than 64 KiB with env",
    { env: { A: "x".repeat(32768) }, secrets: { B: "x".repeat(32768) } },
    "body.secrets: the variables have 65542 bytes",
  ],
  ["an env that is none", { env: null, secrets: { A: "planted" } }, "body.env"],
] as const) {
  test(`refused: ${title}`, async () => {
    const edge = edgeOnClaim();
    const { status, error = "" } = await claim(edge, { workload: "app", ...given });
    assert.is(status, 400, error);
    assert.match(error, says);
    assert.not(error.includes("planted"));
    assert.equal(edge.cluster.verbs(), []);
  });
}

test("refused: a program that starts before its claim", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const { status, error = "" } = await claim(edge, body);
  assert.is(status, 400);
  assert.match(error, "set the workload's entrypoint.start to OnClaim");
  assert.equal(made(edge), []);
});

test.run();
