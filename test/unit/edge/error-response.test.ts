// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { errorResponse } from "../../../edge/http/response.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("errorResponse");
const SECRET = "10.96.0.1:6443 token=abc";
const internal = "internal error; the server's log has details under request id req-1";
const unreachable = "the cluster cannot be reached now; try again shortly";

const api = (status: number, message = SECRET, reason = "") => new ApiError(message, { status, reason });

const cases: [error: unknown, status: number, message: string, logged: boolean][] = [
  [new HttpError(418, "as it is"), 418, "as it is", false],
  [new HttpError(503, "as it is"), 503, "as it is", true],
  [new HttpError(504, "the wait is over", { expected: true }), 504, "the wait is over", false],
  [new NetworkError(SECRET, { requestWasSent: false }), 503, unreachable, true],
  [api(429), 503, unreachable, true],
  [api(502), 503, unreachable, true],
  [api(503), 503, unreachable, true],
  [api(504), 503, unreachable, true],
  [api(500), 500, internal, true],
  [api(401), 500, internal, true],
  [api(403), 500, internal, true],
  [api(418), 500, internal, true],
  [
    api(404),
    503,
    "the cluster does not have tenancy's resource kinds or its namespace; apply the manifests first",
    true,
  ],
  [api(409, "x", "Conflict"), 409, "the object was changed in the meantime; try again", false],
  [
    api(409, 'tenancyclaims.tenancy.dev "x" already exists', "AlreadyExists"),
    409,
    'tenancyclaims.tenancy.dev "x" already exists',
    false,
  ],
  [api(413), 413, "body: is larger than the cluster allows for one object", false],
  [api(400, "bad"), 400, "bad", false],
  [api(422, 'TenancyClaim.tenancy.dev "x" is invalid: [a: one, b: two]'), 400, "a: one, b: two", false],
  [api(400, 'admission webhook "w.example.com" denied the request: no'), 400, "no", false],
  [api(403, 'admission webhook "w.example.com" denied the request: no'), 400, "no", false],
  [
    api(403, 'tenancyclaims.tenancy.dev "x" is forbidden: exceeded quota: q, requested: 1, used: 5, limited: 5'),
    503,
    "the namespace's quota is exceeded: exceeded quota: q, requested: 1, used: 5, limited: 5",
    true,
  ],
  [new TypeError(SECRET), 500, internal, true],
  ["thrown text", 500, internal, true],
  [undefined, 500, internal, true],
  [null, 500, internal, true],
];

test("each error has its status, a message for the caller, and a log line when the server is to blame", async () => {
  for (const [error, status, message, logged] of cases) {
    const lines: { fields: object; message: string }[] = [];
    const note = (fields: object, text: string) => void lines.push({ fields, message: text });
    const response = errorResponse(error, {
      requestId: "req-1",
      log: { debug: () => undefined, info: note, warn: note, error: note },
    });
    assert.is(response.status, status, String(error));
    assert.equal(await response.json(), { error: message });
    assert.is(lines.length, logged ? 1 : 0, String(error));
    if (logged) {
      assert.is(lines[0]?.message, "request failed");
      assert.match(JSON.stringify(lines[0]?.fields), `"requestId":"req-1"`);
    }
  }
});

test("a failure in a route reaches the log with its cause, and the caller only as a request id", async () => {
  const edge = testEdge();
  edge.cluster.onNext("list", new Error(SECRET, { cause: new Error("the root of it") }));
  const answer = await edge.call("GET /api/v1/workloads", { headers: { "x-request-id": "req-7" } });
  assert.is(answer.status, 500);
  assert.not.ok(answer.text.includes("10.96"));
  assert.match(answer.error ?? "", "req-7");
  assert.match(JSON.stringify(edge.log), "the root of it");
});

test("a cluster that does not answer is a 503 on every live route", async () => {
  const body = { name: "app", spec: { image: { ref: "a:1" } } };
  for (const [target, verb] of [
    ["GET /api/v1/workloads", "list"],
    ["GET /api/v1/workloads/app", "get"],
    ["POST /api/v1/workloads", "create"],
    ["PUT /api/v1/workloads/app", "get"],
    ["DELETE /api/v1/workloads/app", "delete"],
    ["POST /api/v1/tenants/a/claim", "get"],
    ["POST /api/v1/tenants/a/release", "get"],
  ] as const) {
    const edge = testEdge();
    edge.cluster.onNext(verb, new NetworkError("connect ECONNREFUSED 10.96.0.1:6443", { requestWasSent: false }));
    const answer = await edge.call(
      target,
      target.includes("tenants") ? { body: { workload: "app" } } : /P(OS|U)T/.test(target) ? { body } : {},
    );
    assert.is(answer.status, 503, target);
    assert.is(answer.error, unreachable);
  }
});

test.run();
