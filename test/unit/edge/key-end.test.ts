// @runtimes bun node deno
// What a key has opened ends with it.
import { createSecretKey } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { orAborted } from "../../../crds/waits.ts";
import type { Actor } from "../../../edge/access/actor.ts";
import { answerAs } from "../../../edge/access/answer-as.ts";
import { type SocketListener, switchingProtocols } from "../../../edge/http/event-socket.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import type { RequestContext } from "../../../edge/http/router.ts";
import { untilCallerEnds } from "../../../edge/http/session.ts";
import { createLinkTokens } from "../../../edge/proxy/entry/link-token.ts";
import { errorOf } from "../../error-of.ts";
import { manualClock } from "../manual-clock.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("the end of a key");

const KEY = "tk_key";
const own = { "sec-fetch-site": "same-origin", host: "edge.test:8080" };

/** Keys with one, until it ends. */
function oneKey(more: Partial<Actor> = {}) {
  const end = new AbortController();
  const actor: Actor = {
    kind: "key",
    id: "one",
    ref: "one-1",
    role: "tenant",
    tenants: ["a"],
    ended: end.signal,
    ...more,
  };
  const find = (text: string, wanted: string) => (text === wanted && !end.signal.aborted ? actor : undefined);
  const keys = {
    actorOf: (text: string) => find(text, KEY),
    actorWithRef: (ref: string) => find(ref, actor.ref),
  };
  return { actor, keys, end: () => end.abort(new Error("the key was deleted")) };
}

async function events(edge: TestEdge, headers: Record<string, string>, query = "") {
  let listener: SocketListener | undefined;
  const handshake = { upgrade: "websocket", "sec-websocket-version": "13" };
  const request = new Request(`http://edge.test/ws${query}`, {
    headers: { ...headers, ...handshake, "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" },
  });
  const { status } = await edge.handler(request, {
    upgrade(wanted) {
      listener = wanted;
      return switchingProtocols();
    },
  });
  const sent: string[] = [];
  const closes: number[] = [];
  listener?.onOpen({
    ...{ send: (text) => void sent.push(String(text)), waitingBytes: 0, cut: () => undefined },
    close: (code) => void closes.push(code),
  });
  return { status, sent, closes };
}

for (const requireKey of [true, false])
  test(`/ws sends a key of some tenants their events only, and closes at its end (key required: ${requireKey})`, async () => {
    const { keys, end } = oneKey();
    const edge = testEdge({ apiKey: "root", requireKey, keys });
    const headers = { authorization: `Bearer ${KEY}` };
    const { status, sent, closes } = await events(edge, headers);
    assert.is(status, 101);
    for (const tenant of ["a", "b", undefined])
      edge.events.publish({ type: "instance.added", tenant, workload: "w", object: { tenant } });
    assert.equal(
      sent.map((text) => JSON.parse(text).object),
      [{ tenant: "a" }],
    );
    assert.is((await events(edge, headers, "?tenant=b")).status, 404);
    assert.is((await events(edge, headers, "?type=workload")).status, 403);
    end();
    assert.equal(closes, [4401]);
    const later = await events(edge, headers);
    // As any stranger's.
    assert.is(later.status, requireKey ? 401 : 101);
  });

test("/ws sends a key of some workloads their events only, also beside another key of the tenant", async () => {
  const some = oneKey({ workloads: ["web", "api-*"] });
  const all = { ...some.actor, ref: "all-1", workloads: undefined };
  const keys = { ...some.keys, actorOf: (text: string) => (text === "tk_all" ? all : some.keys.actorOf(text)) };
  const edge = testEdge({ apiKey: "root", requireKey: true, keys });
  const headers = { authorization: `Bearer ${KEY}` };
  const [ofAll, ofSome] = [await events(edge, { authorization: "Bearer tk_all" }), await events(edge, headers)];
  for (const workload of ["web", "web-1", "api-1", undefined])
    edge.events.publish({ type: "instance.added", tenant: "a", workload, object: { workload } });
  const seen = ({ sent }: { sent: string[] }) => sent.map((text) => JSON.parse(text).object.workload);
  assert.equal(seen(ofSome), ["web", "api-1"]);
  assert.equal(seen(ofAll), ["web", "web-1", "api-1", undefined]);
  assert.is((await events(edge, headers, "?workload=web-1")).status, 404);
  assert.is((await events(edge, headers, "?workload=api-2")).status, 101);
  assert.is((await events(edge, headers, "?type=workload")).status, 403);
});

test("a browser's session of a key may do what the key may, until the key ends", async () => {
  const { keys, end } = oneKey({ role: "reader", tenants: undefined });
  const edge = testEdge({ apiKey: "root", keys });
  const login = await edge.call("POST /api/v1/session", { body: { key: KEY }, headers: own });
  assert.is(login.status, 200, login.text);
  const headers = { ...own, cookie: login.headers.getSetCookie()[0]?.split(";")[0] ?? "" };
  assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 200);
  assert.is((await edge.call("DELETE /api/v1/workloads/x", { headers })).status, 403);
  const { closes } = await events(edge, headers, "?type=workload");
  end();
  assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 401);
  assert.equal((await edge.call("GET /api/v1/session", { headers })).json, { asksForKey: true, active: false });
  assert.equal(closes, [4401]);
});

function as(actor: Actor, handle: (request: Request, context: RequestContext) => Response | Promise<Response>) {
  return answerAs(actor, { request: new Request("http://edge.test/"), context: {}, access: undefined }, handle);
}

test("what a request waits for is given up when its key ends, with 401", async () => {
  const { actor, end } = oneKey();
  const answer = as(actor, async (_, { clientGone = new AbortController().signal }) => {
    await orAborted(new Promise(() => undefined), clientGone);
    return new Response();
  });
  end();
  const error = (await errorOf(answer)) as HttpError;
  assert.equal([error.status, error.message], [401, "the key has ended"]);
});

test("an answer from memory listens to no signal, which would cost more than the answer", async () => {
  const { actor } = oneKey();
  let listens = 0;
  actor.ended.addEventListener = () => {
    listens += 1;
  };
  await as(actor, () => Response.json([]));
  assert.is(listens, 0);
  await as(actor, (_, { clientGone }) => Response.json(clientGone?.aborted));
  assert.is(listens, 1);
});

test("a stream is cut when the key ends that it was given to, and its source is left", async () => {
  const { actor, end } = oneKey();
  let left: unknown;
  const source = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array([1])),
    cancel(reason) {
      left = reason;
    },
  });
  const response = await as(actor, () => new Response(source, { status: 206, headers: { "x-a": "b" } }));
  assert.equal([response.status, response.headers.get("x-a")], [206, "b"]);
  const reader = response.body?.getReader();
  assert.equal((await reader?.read())?.value, new Uint8Array([1]));
  end();
  assert.match(((await errorOf(Promise.resolve(reader?.read()))) as Error).message, "the key was deleted");
  assert.match((left as Error).message, "the key was deleted");
});

test("a stream that ends by itself is whole, and a caller that leaves ends its source", async () => {
  const { actor } = oneKey();
  assert.is(await (await as(actor, () => new Response("whole"))).text(), "whole");
  let left: unknown;
  const source = new ReadableStream({
    cancel(reason) {
      left = reason;
    },
  });
  await (await as(actor, () => new Response(source))).body?.cancel("gone");
  assert.is(left, "gone");
});

test("a socket of a caller that has ended takes nothing more, and is cut if its client does not answer", async () => {
  const { actor, end } = oneKey();
  const clock = manualClock();
  const got: unknown[] = [];
  const listener = untilCallerEnds(
    {
      onOpen: () => void got.push("open"),
      onMessage: (text) => void got.push(text),
      onBinary: (bytes) => void got.push(bytes.length),
      onClose: () => void got.push("close"),
    },
    { actor },
    clock,
  );
  const cuts: true[] = [];
  const cut = () => void cuts.push(true);
  listener.onOpen({ send: () => undefined, waitingBytes: 0, close: () => undefined, cut });
  listener.onMessage("a");
  listener.onBinary?.(new Uint8Array(2));
  end();
  listener.onMessage("b");
  listener.onBinary?.(new Uint8Array(3));
  assert.equal(got, ["open", "a", 2, "close"]);
  assert.is(cuts.length, 0);
  await clock.runNext();
  assert.is(cuts.length, 1);
  listener.onClose();
  assert.is(got.length, 4);
});

test("what is open under a token is counted from its start to each of its ends", async () => {
  let open = 0;
  const opens = () => {
    open += 1;
    let isOpen = true;
    return () => {
      if (isOpen) open -= 1;
      isOpen = false;
    };
  };
  const counted = () => {
    const key = oneKey({ opens });
    return { ...key, as: (response: () => Response) => as(key.actor, response) };
  };
  const endless = () =>
    new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1)) }));
  const failing = () => new Response(new ReadableStream({ pull: () => Promise.reject(new Error("lost")) }));
  let during = 0;
  await counted().as(() => {
    during = open;
    return Response.json({});
  });
  assert.equal([during, open], [1, 0]);
  await errorOf(
    counted().as(() => {
      throw new Error("failed");
    }),
  );
  assert.is(open, 0);
  const whole = await counted().as(() => new Response("whole"));
  assert.is(open, 1);
  await whole.text();
  assert.is(open, 0);
  const left = await counted().as(endless);
  assert.is(open, 1);
  await left.body?.cancel();
  assert.is(open, 0);
  const lost = await counted().as(failing);
  assert.is(open, 1);
  await errorOf(lost.text());
  assert.is(open, 0);
  const ending = counted();
  await ending.as(endless);
  assert.is(open, 1);
  ending.end();
  assert.is(open, 0);

  const closed = (listener: SocketListener) => listener.onClose();
  for (const close of [closed, (_: SocketListener, end: () => void) => end()]) {
    const { actor, end } = counted();
    const listener = untilCallerEnds(
      { onOpen: () => undefined, onMessage: () => undefined, onClose: () => undefined },
      { actor },
      manualClock(),
    );
    assert.is(open, 0);
    listener.onOpen({ send: () => undefined, waitingBytes: 0, close: () => undefined, cut: () => undefined });
    assert.is(open, 1);
    close(listener, end);
    assert.is(open, 0);
  }
});

test("where keys are not known, /ws does not take the holder of one for a stranger", async () => {
  const unknown = (): never => {
    throw new HttpError(503, "the keys are not current");
  };
  const edge = testEdge({ apiKey: "root", keys: { actorOf: unknown, actorWithRef: unknown } });
  assert.is((await events(edge, { authorization: `Bearer ${KEY}` })).status, 503);
});

test("a link that a key asked for, and its cookie, end with the key", () => {
  const { actor, keys, end } = oneKey();
  const signing = createSecretKey(Buffer.alloc(32, 1));
  const now = () => 0;
  const isApiKey = (ref: string) => keys.actorWithRef(ref) !== undefined;
  const tokens = createLinkTokens({ keys: () => [signing], isApiKey, now });
  const grant = { tenantId: "a", workload: "w", expiresAt: 60 };
  const [link, cookie] = (["link", "cookie"] as const).map((use) => tokens.sign(use, { ...grant, by: actor.ref }));
  const read = tokens.read("link", link);
  assert.ok(read !== undefined && tokens.holds(read));
  assert.is(tokens.read("cookie", cookie)?.by, actor.ref);
  // A front door without keys serves no such link; one that does not know them now keeps what is open.
  assert.is(createLinkTokens({ keys: () => [signing], now }).read("link", link), undefined);
  const unsure = createLinkTokens({ keys: () => [signing], isApiKey: () => undefined, now });
  assert.equal([unsure.read("link", link), unsure.holds(read)], [undefined, true]);
  end();
  assert.equal(
    [tokens.read("link", link), tokens.read("cookie", cookie), tokens.holds(read)],
    [undefined, undefined, false],
  );
  assert.ok(tokens.read("link", tokens.sign("link", grant)), "one of the root key stays");
});

test.run();
