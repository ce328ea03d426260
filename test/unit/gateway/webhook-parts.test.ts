// @runtimes bun node deno
import { sign } from "@octokit/webhooks-methods";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Trigger } from "../../../crds/trigger.ts";
import { triggerProblem } from "../../../edge/gateway/triggers/trigger-problem.ts";
import { createDeliveries, deliveryId, type WebhookAnswer } from "../../../edge/gateway/webhook/deliveries.ts";
import { parseDelivery, refusePages, verifySignature } from "../../../edge/gateway/webhook/receive-delivery.ts";
import { answerOf, respond } from "../../../edge/gateway/webhook/start-webhook.ts";
import { pathProblem } from "../../../edge/gateway/webhook/webhook-paths.ts";
import { pathOf } from "../../../edge/http/handler.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("parts of the webhook adapter");
const bytes = (text: string) => new TextEncoder().encode(text);

function statusOf(work: () => unknown): number {
  try {
    work();
  } catch (error) {
    if (error instanceof HttpError) return error.status;
    throw error;
  }
  return 200;
}

// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
const GITHUB = {
  secret: "It's a Secret to Everybody",
  body: "Hello, World!",
  signature: "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
};

test("GitHub's published vector is verified", () => {
  verifySignature({ ...GITHUB, body: bytes(GITHUB.body) });
});

test("the signatures of another project's signer are verified, whatever the bytes", async () => {
  for (const body of ["{}", "\ufeff{}", "grüße \u{1f600}", '{"a":"\\u0000"}', "x".repeat(100_000)]) {
    verifySignature({ secret: "s", body: bytes(body), signature: await sign("s", body) });
  }
});

test("whatever is not the signature is a 401", () => {
  const { signature } = GITHUB;
  for (const wrong of [
    null,
    "",
    "sha256=",
    signature.slice(0, -1),
    `${signature}0`,
    `${signature} `.repeat(2),
    signature.replace("sha256", "sha1"),
    signature.replace("sha256=", ""),
    signature.replace(/.$/, "8"),
    `sha256=${"0".repeat(64)}`,
    `sha256=${"g".repeat(64)}`,
    `${signature}, ${signature}`,
  ]) {
    assert.is(
      statusOf(() => verifySignature({ ...GITHUB, body: bytes(GITHUB.body), signature: wrong })),
      401,
      String(wrong),
    );
  }
  const sha1 = { ...GITHUB, body: bytes(GITHUB.body), signature: "sha1=00" };
  assert.throws(() => verifySignature(sha1), /must be sha256=/);
  assert.is(
    statusOf(() => verifySignature({ ...GITHUB, body: bytes("Hello, World?") })),
    401,
  );
  assert.is(
    statusOf(() => verifySignature({ ...GITHUB, body: bytes(GITHUB.body), secret: "other" })),
    401,
  );
});

test("JSON comes as itself or in a form's payload, and all else is a 400", () => {
  const table: [type: string | null, body: string, expected: unknown][] = [
    ["application/json", '{"a":1}', { a: 1 }],
    ["application/json; charset=utf-8", "[1]", [1]],
    ["APPLICATION/JSON", "null", null],
    ["application/cloudevents+json", "{}", {}],
    ["application/x-www-form-urlencoded", "payload=%7B%22a%22%3A%22b+c%22%7D", { a: "b c" }],
    ["application/x-www-form-urlencoded; charset=utf-8", "x=1&payload=2", 2],
    [null, "{}", 400],
    ["text/plain", "{}", 400],
    ["text/json", "{}", 400],
    ["application/jsonp", "{}", 400],
    ["multipart/form-data; boundary=x", "{}", 400],
    ["application/json", "", 400],
    ["application/json", "{", 400],
    ["application/x-www-form-urlencoded", "a=1", 400],
    ["application/x-www-form-urlencoded", "payload=", 400],
    ["application/x-www-form-urlencoded", "payload=nope", 400],
  ];
  for (const [type, body, expected] of table) {
    if (expected === 400)
      assert.is(
        statusOf(() => parseDelivery(bytes(body), type)),
        400,
        `${type} ${body}`,
      );
    else assert.equal(parseDelivery(bytes(body), type), expected);
  }
  for (const [type, body, says] of [
    ["text/plain", "{}", /content-type: must be/],
    ["application/json", " ", /got nothing/],
    ["application/x-www-form-urlencoded", "a=1", /field payload/],
  ] as const)
    assert.throws(() => parseDelivery(bytes(body), type), says);
  assert.is(
    statusOf(() => parseDelivery(new Uint8Array([0x22, 0xff, 0x22]), "application/json")),
    400,
  );
});

test("a delivery has the name that its sender gave it, or none", () => {
  assert.is(deliveryId(new Headers({ "x-github-delivery": "72d3162e-cc78" })), "72d3162e-cc78");
  assert.is(deliveryId(new Headers({ "webhook-id": "msg_1" })), "msg_1");
  assert.is(deliveryId(new Headers({ "content-type": "a" })), undefined);
  assert.is(deliveryId(new Headers({ "x-github-delivery": "" })), undefined);
  assert.match(deliveryId(new Headers({ "x-github-delivery": "a b/../c" })) ?? "", /^[0-9a-f]{64}$/);
});

const answer = (text: string, status = 200): WebhookAnswer => ({
  status,
  contentType: "text/plain",
  body: bytes(text),
});

test("a delivery that comes again, also meanwhile, gets the first answer and is not run", async () => {
  const deliveries = createDeliveries({ clock: manualClock() });
  let runs = 0;
  let finish: (answer: WebhookAnswer) => void = () => undefined;
  const run = () => {
    runs += 1;
    return new Promise<WebhookAnswer>((resolve) => {
      finish = resolve;
    });
  };
  const first = deliveries.once("k", run);
  const second = deliveries.once("k", run);
  const other = deliveries.once("other", async () => answer("other"));
  finish(answer("one"));
  assert.equal(await first, { answer: answer("one"), repeated: false });
  assert.equal(await second, { answer: answer("one"), repeated: true });
  assert.equal(await deliveries.once("k", run), { answer: answer("one"), repeated: true });
  assert.equal((await other).repeated, false);
  assert.is(runs, 1);
});

test("what failed is run again when it comes again", async () => {
  const deliveries = createDeliveries({ clock: manualClock() });
  for (const status of [503, 502, 429, 200]) {
    const { repeated } = await deliveries.once("k", async () => answer("x", status));
    assert.not(repeated);
  }
  assert.ok((await deliveries.once("k", async () => answer("y"))).repeated);
  const thrown = await deliveries
    .once("t", () => Promise.reject(new Error("no")))
    .catch((error: Error) => error.message);
  assert.is(thrown, "no");
  assert.not((await deliveries.once("t", async () => answer("y"))).repeated);
});

test("the memory of answers is bounded in bytes, count and age", async () => {
  const clock = manualClock();
  const deliveries = createDeliveries({ clock, maxBytes: 10_000, maxCount: 5, maxAgeMs: 1000 });
  const again = async (key: string) => (await deliveries.once(key, async () => answer("x"))).repeated;
  for (let count = 0; count < 6; count += 1) await deliveries.once(`k${count}`, async () => answer("x"));
  assert.ok(await again("k5"));
  assert.not(await again("k0"));
  await deliveries.once("large", async () => answer("x".repeat(9000)));
  assert.ok(deliveries.bytes <= 10_000);
  assert.not(await again("k5"));
  await deliveries.once("too-large", async () => answer("x".repeat(20_000)));
  assert.not(await again("too-large"));
  await clock.pass(1001);
  assert.not(await again("too-large"));
  for (let count = 0; count < 1000; count += 1)
    await deliveries.once(`n${count}`, async () => answer("x".repeat(count)));
  assert.ok(deliveries.bytes <= 10_000);
});

test("what became of a delivery is the answer of its sender", async () => {
  const reply = { status: 201, contentType: "text/html; charset=utf-8", body: bytes("<b>"), text: "<b>" };
  assert.equal(answerOf({ kind: "answered", reply }), {
    status: 201,
    contentType: reply.contentType,
    body: reply.body,
  });
  const table = [
    [{ kind: "denied", message: "members only" }, 403, "members only"],
    [{ kind: "refused", message: "no tenant" }, 400, "no tenant"],
    [{ kind: "failed", message: "later", status: 504 }, 504, "later"],
    [{ kind: "failed", message: "later", status: 502 }, 502, "later"],
    [{ kind: "failed", message: "later", status: 429 }, 429, "later"],
    [{ kind: "failed", message: "later" }, 503, "later"],
  ] as const;
  for (const [outcome, status, error] of table) {
    const response = respond(answerOf(outcome));
    assert.is(response.status, status);
    assert.equal(await response.json(), { error });
    assert.is(response.headers.get("retry-after"), status === 503 || status === 429 ? "5" : null);
  }
  for (const status of [0, 99, 101, 199, 600, 999, 200.5]) {
    assert.is(answerOf({ kind: "answered", reply: { ...reply, status } }).status, 502, String(status));
  }
  for (const contentType of ["", "html", "text/html\r\nset-cookie: a=b", "text/html; a=\u00e4", "a b/c"]) {
    const { contentType: given } = answerOf({ kind: "answered", reply: { ...reply, contentType } });
    assert.is(given, "application/octet-stream");
  }
  for (const status of [204, 304]) assert.is(await respond(answer("gone", status)).text(), "");
});

test("a page of another site does not reach a webhook without a secret", () => {
  const table: [headers: Record<string, string>, localOnly: boolean, status: number][] = [
    [{}, false, 200],
    [{ "sec-fetch-site": "none" }, false, 200],
    [{ "sec-fetch-site": "same-origin" }, false, 200],
    [{ "sec-fetch-site": "cross-site" }, false, 403],
    [{ "sec-fetch-site": "same-site" }, false, 403],
    [{ host: "edge.test", origin: "http://edge.test" }, false, 200],
    [{ host: "edge.test", origin: "http://evil.test" }, false, 403],
    [{ host: "edge.test", origin: "null" }, false, 403],
    [{ host: "evil.test" }, true, 403],
    [{ host: "127.0.0.1:8080" }, true, 200],
    [{ host: "localhost" }, true, 200],
  ];
  for (const [headers, localOnly, status] of table) {
    // Runtimes differ in which of these a program may set on a real one.
    const request = { headers: { get: (name: string) => headers[name] ?? null } } as unknown as Request;
    assert.is(
      statusOf(() => refusePages(request, { localOnly })),
      status,
      JSON.stringify(headers),
    );
  }
});

test("the edge's own paths are no webhook's, in any case, encoding or form", () => {
  for (const path of [
    "/",
    "/api",
    "/api/",
    "/api/v1/health",
    "/API/v1/x",
    "/%61pi/v1/x",
    "/ws",
    "/ws/",
    "/docs",
    "/docs/x",
    "/metrics",
    "/healthz",
    "/readyz",
    "/assets/app.js",
    "/hooks/../api/v1/x",
    "/hooks/./a",
    "/hooks/%2e%2e/api",
    "//api/v1",
    "/hooks//a",
    "/hooks/%zz",
  ]) {
    assert.type(pathProblem(path), "string", path);
  }
  for (const path of ["/hooks/a", "/hooks/a/", "/apis", "/wsx", "/h", "/a.b_c~d", "/hooks/%C3%A4"]) {
    assert.is(pathProblem(path), undefined, path);
  }
});

test("of two triggers on one path the older has it", () => {
  const make = (name: string, createdAt: string, path = "/hooks/a", type: "webhook" | "cron" = "webhook"): Trigger => ({
    metadata: { name, namespace: "tenancy", uid: name, creationTimestamp: createdAt },
    spec: { type, workloadRef: "app", tenant: { static: "a" }, config: { path } },
  });
  const [older, younger] = [make("z", "2026-01-01T00:00:00Z"), make("a", "2026-01-02T00:00:00Z")];
  assert.is(triggerProblem(older, [older, younger]), undefined);
  assert.match(
    triggerProblem(younger, [older, younger]) ?? "",
    /\/hooks\/a belongs to the older trigger z; choose another path/,
  );
  const twin = make("b", younger.metadata.creationTimestamp ?? "");
  assert.is(triggerProblem(younger, [younger, twin]), undefined);
  assert.type(triggerProblem(twin, [younger, twin]), "string");
  const going = { ...older, metadata: { ...older.metadata, deletionTimestamp: "2026-01-03T00:00:00Z" } };
  assert.is(triggerProblem(younger, [going, younger]), undefined);
  const broken = { ...older, spec: { ...older.spec, tenant: {} } };
  assert.is(triggerProblem(younger, [broken, younger]), undefined);
  assert.match(
    triggerProblem(make("r", "2026-01-01T00:00:00Z", "/api/x"), []) ?? "",
    /^spec\.config\.path: \/api\/x belongs to the edge/,
  );
  assert.match(triggerProblem(broken, []) ?? "", /^spec\.tenant: give exactly one of from and static/);
});

test("pathOf is the path as new URL has it", () => {
  for (const path of ["/", "/a/b", "/a?b=/c", "/a%2Fb?x", "/a;b,c/", "/a/?", "/:8080/x"]) {
    const url = `http://edge.test:8080${path}`;
    assert.is(pathOf(url), new URL(url).pathname);
  }
  assert.is(pathOf("http://edge.test"), "/");
});

test.run();
