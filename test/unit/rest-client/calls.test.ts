// @runtimes bun node deno
// Which calls the client tries again, and what it never sends.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, createClient } from "../../../edge/client/index.ts";
import { errorOf } from "../../error-of.ts";

const test = suite("createClient: calls");

type Answer = Response | Error;
const refused = (status: number, retryAfter?: string, error = "no") =>
  Response.json(
    { error },
    { status, headers: { "x-request-id": "r-1", ...(retryAfter !== undefined && { "retry-after": retryAfter }) } },
  );
const claimed = () => Response.json({ tenantId: "ann", workloadRef: "app", phase: "Active" }, { status: 201 });

/** A client whose requests get these answers, in turn, and the requests. */
function answering(...answers: (() => Answer)[]) {
  const requests: Request[] = [];
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    requests.push(new Request(url, init));
    init.signal?.throwIfAborted();
    const answer = answers[requests.length - 1]?.();
    assert.ok(answer, "one request too many");
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const client = createClient({ url: "http://edge.test/api/v1/", key: async () => "k", fetch });
  return { client, requests };
}

const lost = () => new TypeError("fetch failed", { cause: new Error("ECONNRESET") });

test("a claim that was refused before it began is tried again, with the key and the same body", async () => {
  const { client, requests } = answering(() => refused(429, "0"), claimed);
  assert.is((await client.claim("ann", "app", { resume: true })).phase, "Active");
  assert.is(requests.length, 2);
  for (const request of requests) {
    assert.is(request.url, "http://edge.test/api/v1/tenants/ann/claim");
    assert.is(request.headers.get("authorization"), "Bearer k");
    assert.equal(await request.json(), { resume: true, workload: "app" });
  }
});

test("what may have been begun is sent once: a claim, a process, a write, and a read that claims", async () => {
  const passing = [() => refused(503, "0"), lost, () => refused(500, "0"), () => refused(502)];
  for (const answer of passing) {
    for (const act of [
      (client: ReturnType<typeof createClient>) => client.claim("ann", "app"),
      (client: ReturnType<typeof createClient>) => client.run("inst-a", ["true"]),
      (client: ReturnType<typeof createClient>) => client.files.write("inst-a", "a", "text"),
      (client: ReturnType<typeof createClient>) =>
        client.files.list({ tenant: "ann", workload: "app", wake: true }, "/"),
    ]) {
      const { client, requests } = answering(answer);
      const error = await errorOf(act(client));
      assert.instance(error, ApiError);
      assert.is(requests.length, 1);
    }
  }
});

test("a claim that takes longer than a call is looked at, and not claimed again", async () => {
  const found =
    (phase: string, uid = "u-1") =>
    () =>
      Response.json({ phase, uid });
  const waits = answering(() => refused(504), found("Active"));
  assert.is((await waits.client.claim("ann", "app")).phase, "Active");
  assert.equal(
    waits.requests.map(({ method }) => method),
    ["POST", "GET"],
  );
  const statusOf = async (...answers: (() => Answer)[]) =>
    ((await errorOf(answering(() => refused(504), ...answers).client.claim("ann", "app"))) as ApiError).status;
  assert.is(await statusOf(found("Releasing")), 504);
  assert.is(await statusOf(found("Error")), 500);
  assert.is(await statusOf(() => refused(404)), 404);
  assert.is(await statusOf(found("Pending"), found("Active", "u-2")), 409);
});

test("a read is tried again after a lost connection and a passing 503, and not after other errors", async () => {
  const { client, requests } = answering(
    lost,
    () => refused(503, "0"),
    () => Response.json([]),
  );
  assert.equal(await client.claims(), []);
  assert.is(requests.length, 3);
  for (const answer of [() => refused(503), () => refused(404), () => refused(500, "0"), () => refused(429, "3600")]) {
    const once = answering(answer);
    await errorOf(once.client.claims());
    assert.is(once.requests.length, 1);
  }
});

test("tries are bounded, and the last error has the status, the message and the request's id", async () => {
  const { client, requests } = answering(...Array(5).fill(() => refused(429, "0", "too many")));
  const error = (await errorOf(client.claim("ann", "app"))) as ApiError;
  assert.is(requests.length, 5);
  assert.equal([error.status, error.message, error.requestId, error.retryAfter], [429, "too many", "r-1", 0]);
});

test("a stream is not sent twice", async () => {
  const { client, requests } = answering(() => refused(429, "0"));
  const error = (await errorOf(client.files.write("inst-a", "a", new Blob(["text"]).stream()))) as ApiError;
  assert.equal([error.status, requests.length], [429, 1]);
});

test("the signal ends the wait before another try, with its reason", async () => {
  const end = new AbortController();
  const { client, requests } = answering(() => {
    setTimeout(() => end.abort(new Error("enough")), 0);
    return refused(429, "30");
  });
  const error = (await errorOf(client.claims({}, { signal: end.signal }))) as Error;
  assert.equal([error.message, requests.length], ["enough", 1]);
});

test("an answer of a proxy in front is an error with its status", async () => {
  const { client } = answering(() => new Response("<html>", { status: 502, statusText: "Bad Gateway" }));
  const error = (await errorOf(client.claim("ann", "app"))) as ApiError;
  assert.equal([error.status, error.message, error.retryAfter], [502, "502 Bad Gateway", undefined]);
});

test("a list is read page by page, to its end", async () => {
  const page = (items: object[], next?: string) => () =>
    Response.json(items, { headers: next === undefined ? {} : { "x-tenancy-next": next } });
  const { client, requests } = answering(page([{ name: "a" }], "a b"), page([], "c"), page([{ name: "d" }]));
  const names = (await client.claims({ phase: "Active" })).map(({ name }) => name);
  assert.equal(names, ["a", "d"]);
  assert.equal(
    requests.map(({ url }) => new URL(url).search),
    ["?phase=Active", "?phase=Active&after=a+b", "?phase=Active&after=c"],
  );
});

test("no name leads to another route", async () => {
  const { client, requests } = answering();
  for (const act of [
    () => client.claim("..", "app"),
    () => client.claim("", "app"),
    () => client.files.read("inst-a", "../../destroy"),
    () => client.files.write("inst-a", "a/%2e%2e".replaceAll("%2e", "."), "text"),
    () => client.files.remove("inst-a", { path: "x", encodedPath: "%2E%2e/%2E%2e/activity" }),
    () => client.files.read("inst-a", "a//b"),
    () => client.files.remove("inst-a", "/"),
    () => client.run(".", ["true"]),
  ])
    assert.instance(await errorOf((async () => void (await act()))()), TypeError);
  assert.is(requests.length, 0);
  const odd = answering(() => new Response(""));
  await odd.client.files.read("a/b", "/dir/100% of #1?.txt");
  assert.is(odd.requests[0]?.url, "http://edge.test/api/v1/instances/a%2Fb/files/dir/100%25%20of%20%231%3F.txt");
});

test("an address that is none is refused", () => {
  assert.throws(() => createClient({ url: "file:///etc/passwd" }), /http/);
  assert.throws(() => createClient({ url: "127.0.0.1:8080" }));
});

test.run();
