// @limit 900
import { once } from "node:events";
import { request } from "node:http";
import { sign } from "@octokit/webhooks-methods";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { claimName } from "../../../crds/names.ts";
import { type EdgeProcess, startEdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { edgeRuntimes } from "../edge-runtimes.ts";
import { NAMESPACE } from "../tenancy.ts";
import { deliver, type GatewayEnvironment, SECRET, startGatewayEnvironment } from "./gateway-environment.ts";

const test = suite("webhooks on a real API server");
const KEY = "api-key-of-the-test";
const secretRef = { name: "hook", key: "secret" };
let environment: GatewayEnvironment;
let edge: EdgeProcess;

test.before(async () => {
  environment = await startGatewayEnvironment("gateway-webhook");
});

/** Sends a body in chunks, without a length. */
async function deliverChunks(url: string, chunks: readonly string[], headers: Record<string, string>): Promise<number> {
  const sending = request(url, { method: "POST", headers: { "content-type": "application/json", ...headers } });
  const answered = once(sending, "response");
  // A server that refuses the rest may cut the connection.
  sending.on("error", () => undefined);
  for (const chunk of chunks) {
    sending.write(chunk);
    await new Promise((resolve) => setImmediate(resolve));
  }
  sending.end();
  const [response] = (await answered) as [{ statusCode: number; resume(): void }];
  response.resume();
  return response.statusCode;
}

for (const runtime of edgeRuntimes) {
  const hook = `signed-${runtime}`;
  const open = `open-${runtime}`;

  test(`${runtime}: a signed delivery reaches the tenant's container, and its answer the sender`, async () => {
    await environment.writeSecret("hook", { secret: SECRET });
    await environment.createTrigger(hook, {
      tenant: { from: "repository.owner.login", prefix: "gh-" },
      config: { path: `/hooks/${hook}`, secretRef },
      guards: [{ type: "allowlist", config: { tenantIds: ["GH-octo", "gh-7"], denyMessage: "members only" } }],
    });
    await environment.createTrigger(open, { tenant: { from: "tenant" }, config: { path: `/hooks/${open}` } });
    edge = await startEdgeProcess(runtime, {
      KUBECONFIG: environment.tenancy.cluster.kubeconfigPath,
      TENANCY_API_KEY: KEY,
      TENANCY_CORS_ORIGIN: "*",
    });
    await environment.untilActive(hook);
    await environment.untilActive(open);
    const body = { repository: { owner: { login: "octo" } }, text: "grüße" };
    const answer = await deliver(`${edge.url}/hooks/${hook}`, body, { secret: SECRET, id: "d1" });
    assert.is(answer.status, 200, answer.text);
    const { receivedAt, ...payload } = JSON.parse(answer.text);
    assert.equal(payload, { id: `${hook}-d1`, trigger: hook, source: "webhook", tenantId: "GH-octo", data: body });
    assert.ok(Math.abs(Date.parse(receivedAt) - Date.now()) < 60_000);
    const name = claimName({ tenantId: "GH-octo", workloadRef: "app" });
    const claim = await environment.tenancy.client.get(claims, { namespace: NAMESPACE, name });
    assert.is(claim.spec.resume, true);
  });

  test(`${runtime}: who may not is refused as it should be`, async () => {
    const url = `${edge.url}/hooks/${hook}`;
    const octo = { repository: { owner: { login: "octo" } } };
    const before = environment.container.payloads.length;
    const large = JSON.stringify({ ...octo, fill: "x".repeat(1024 * 1024) });
    const signed = (text: string) => sign(SECRET, text);
    const form = `payload=${encodeURIComponent(JSON.stringify(octo))}`;
    const formType = { "content-type": "application/x-www-form-urlencoded" };
    const table: [
      name: string,
      status: number,
      answer: () => Promise<{ status: number; error?: string | undefined }>,
      error?: RegExp,
    ][] = [
      ["no signature", 401, () => deliver(url, octo), /X-Hub-Signature-256: is missing/],
      ["the API key instead of one", 401, () => deliver(url, octo, { headers: { authorization: `Bearer ${KEY}` } })],
      ["another secret's", 401, () => deliver(url, octo, { secret: "other" }), /does not match/],
      [
        "another body's",
        401,
        async () => deliver(url, octo, { headers: { "x-hub-signature-256": await signed("{}") } }),
      ],
      ["GET", 405, () => deliver(url, octo, { method: "GET" }), /POST only/],
      ["PUT", 405, () => deliver(url, octo, { method: "PUT" })],
      ["DELETE", 405, () => deliver(url, octo, { method: "DELETE" })],
      [
        "a page's preflight",
        405,
        () =>
          deliver(url, octo, {
            method: "OPTIONS",
            headers: { origin: "https://a.test", "access-control-request-method": "POST" },
          }),
      ],
      ["no JSON", 400, () => deliver(url, "{", { secret: SECRET }), /body: is not JSON/],
      ["no tenant", 400, () => deliver(url, {}, { secret: SECRET }), /has no field repository\.owner\.login/],
      [
        "an illegal tenant",
        400,
        () => deliver(url, { repository: { owner: { login: "a/b" } } }, { secret: SECRET }),
        /tenant id/,
      ],
      ["too large", 413, () => deliver(url, large, { secret: SECRET }), /larger than 1048576 bytes/],
      [
        "too large, in chunks",
        413,
        async () => ({
          status: await deliverChunks(url, large.match(/.{1,65536}/gs) ?? [], {
            "x-hub-signature-256": await signed(large),
          }),
        }),
      ],
      [
        "not on the list",
        403,
        () => deliver(url, { repository: { owner: { login: "eve" } } }, { secret: SECRET }),
        /^members only$/,
      ],
      [
        "a page",
        403,
        () => deliver(`${edge.url}/hooks/${open}`, { tenant: "a" }, { headers: { "sec-fetch-site": "cross-site" } }),
        /page/,
      ],
      ["no such path", 401, () => deliver(`${edge.url}/hooks/none`, octo, { secret: SECRET })],
    ];
    for (const [name, expected, call, message] of table) {
      const { status, error } = await call();
      assert.is(status, expected, `${name}: ${error}`);
      if (message !== undefined) assert.match(error ?? "", message, name);
    }
    assert.is(environment.container.payloads.length, before, "the container heard of nothing");
    const passed: [string, () => Promise<number>][] = [
      ["a form", async () => (await deliver(url, form, { secret: SECRET, headers: formType })).status],
      [
        "in chunks",
        async () => {
          const text = JSON.stringify({ ...octo, fill: "ä".repeat(200_000) });
          const chunks = text.match(/.{1,10000}/gs) ?? [];
          return deliverChunks(url, chunks, { "x-hub-signature-256": await signed(text) });
        },
      ],
      [
        "just within the limit",
        async () => {
          const fill = "x".repeat(1024 * 1024 - JSON.stringify({ ...octo, fill: "" }).length);
          return (await deliver(url, { ...octo, fill }, { secret: SECRET })).status;
        },
      ],
      ["without a secret", async () => (await deliver(`${edge.url}/hooks/${open}`, { tenant: "a" })).status],
    ];
    // An echo of the largest delivery would be larger than an answer may be.
    environment.container.onPayload = (_, response) => response.end("taken");
    for (const [name, call] of passed) assert.is(await call(), 200, name);
    environment.container.onPayload = echo;
    console.log(`note: ${runtime}: ${table.length} ways to be refused, ${passed.length} to pass`);
  });

  test(`${runtime}: the container's status, type and body are passed on, and no header of it`, async () => {
    environment.container.onPayload = (_, response) =>
      response
        .writeHead(418, {
          "content-type": "text/html; charset=utf-8",
          "set-cookie": "a=b",
          "x-internal": "10.0.0.1",
          location: "/x",
        })
        .end("<script>alert(1)</script>");
    const { status, text, headers } = await deliver(`${edge.url}/hooks/${open}`, { tenant: "a" });
    environment.container.onPayload = echo;
    assert.is(status, 418);
    assert.is(text, "<script>alert(1)</script>");
    assert.is(headers.get("content-type"), "text/html; charset=utf-8");
    for (const name of ["set-cookie", "x-internal", "location", "access-control-allow-origin"])
      assert.is(headers.get(name), null, name);
    assert.is(headers.get("x-content-type-options"), "nosniff");
    assert.match(headers.get("content-security-policy") ?? "", /sandbox/);
  });

  test(`${runtime}: a repeated delivery gets the first answer and is not run twice, also meanwhile`, async () => {
    const url = `${edge.url}/hooks/${hook}`;
    const octo = { repository: { owner: { login: "octo" } } };
    const before = environment.container.payloads.length;
    let count = 0;
    const waiting: (() => void)[] = [];
    environment.container.onPayload = (_, response) => {
      count += 1;
      const answer = `run ${count}`;
      waiting.push(() => response.writeHead(202, { "content-type": "text/plain" }).end(answer));
    };
    const sent = Array.from({ length: 5 }, () => deliver(url, octo, { secret: SECRET, id: "again" }));
    await environment.tenancy.until("the container has it", () => waiting.length === 1);
    sent.push(deliver(url, octo, { secret: SECRET, id: "again" }));
    waiting.shift()?.();
    for (const { status, text } of await Promise.all(sent)) assert.equal([status, text], [202, "run 1"]);
    assert.equal((await deliver(url, octo, { secret: SECRET, id: "again" })).text, "run 1");
    assert.is((await deliver(url, octo, { secret: "wrong", id: "again" })).status, 401);
    environment.container.onPayload = echo;
    assert.is(environment.container.payloads.length - before, 1);
    const others = [
      await deliver(url, octo, { secret: SECRET, id: "another" }),
      await deliver(url, { ...octo, more: 1 }, { secret: SECRET, id: "again" }),
      await deliver(url, octo, { secret: SECRET }),
      await deliver(url, octo, { secret: SECRET }),
    ];
    assert.is(new Set(others.map(({ text }) => JSON.parse(text).id)).size, 4);
    assert.is(environment.container.payloads.length - before, 5);
  });

  test(`${runtime}: what cannot be served is a 502, 503 or 504 without internals`, async () => {
    const url = `${edge.url}/hooks/${open}`;
    const send = (tenant: string) => deliver(url, { tenant: `${tenant}-${runtime}` });
    environment.container.onPayload = (_, response) => response.destroy();
    const broken = await send("broken");
    environment.container.onPayload = echo;
    assert.equal([broken.status, broken.error], [502, "the container did not answer"]);
    environment.answer = () => ({ phase: "Error", reason: "ImagePullFailed", message: "registry.internal: refused" });
    const failed = await send("failed");
    assert.equal([failed.status, failed.error], [502, "the container could not be started"]);
    environment.answer = () => undefined;
    // These two are waited for as long as an event may wait.
    const impatient = await startReadyEdge(runtime, {
      KUBECONFIG: environment.tenancy.cluster.kubeconfigPath,
      TENANCY_TRIGGER_CLAIM_WAIT: "5",
    });
    const sendInVain = (tenant: string) =>
      deliver(`${impatient.url}/hooks/${open}`, { tenant: `${tenant}-${runtime}` });
    const late = await sendInVain("late");
    assert.equal([late.status, late.error], [504, "the container was not ready in time; try again later"]);
    environment.answer = () => ({ phase: "Error", reason: "QuotaExceeded", message: "exceeded quota: q" });
    let full = await sendInVain("full");
    // The last of its tries may be cut by the limit itself.
    for (let tries = 1; full.status === 504 && tries < 8; tries += 1) full = await sendInVain("full");
    assert.equal([full.status, full.error], [503, "not available now; try again later"]);
    assert.is(full.headers.get("retry-after"), "5");
    await environment.tenancy.until("Events tell the owner why", async () => {
      const told = (await environment.eventsOf(open)).map(({ reason, message }) => `${reason} ${message}`);
      return (
        told.some((text) => text.includes("registry.internal")) && told.some((text) => text.includes("exceeded quota"))
      );
    });
    impatient.child.kill("SIGTERM");
    assert.is(await impatient.exited, 0, impatient.lines.join("\n"));
    environment.answer = environment.active;
    const metrics = await (await fetch(`${edge.metricsUrl}/metrics`)).text();
    for (const result of ["answered", "failed", "refused", "denied", "repeated", "unsigned", "rejected"]) {
      assert.match(metrics, new RegExp(`tenancy_gateway_events_total\\{source="webhook",result="${result}"\\} [1-9]`));
    }
    assert.match(metrics, /tenancy_gateway_triggers\{type="webhook",phase="Active"\} \d/);
  });

  test(`${runtime}: a secret that changes, goes and comes back is followed`, async () => {
    const url = `${edge.url}/hooks/${hook}`;
    const octo = { repository: { owner: { login: "octo" } } };
    const statusWith = async (secret: string) => (await deliver(url, octo, { secret })).status;
    await environment.writeSecret("hook", { secret: "second" });
    await environment.tenancy.until("the new one is taken", async () => (await statusWith("second")) === 200);
    assert.is(await statusWith(SECRET), 401);
    await environment.tenancy.client.delete(secrets, { namespace: NAMESPACE, name: "hook" });
    const { detail } = await environment.untilTrigger(hook, ({ phase }) => phase === "Error");
    assert.is(detail, "spec.config.secretRef: Secret hook does not exist; create it with the key secret");
    assert.is(await statusWith("second"), 503);
    assert.is((await deliver(`${edge.url}/hooks/${open}`, { tenant: "a" })).status, 200, "others are not touched");
    await environment.writeSecret("hook", { secret: "third" });
    await environment.untilActive(hook);
    assert.is(await statusWith("third"), 200);
    const shown = await environment.tenancy.client.get(secrets, { namespace: NAMESPACE, name: "hook" });
    for (const form of ["third", "second", SECRET, shown.data?.secret ?? "third"]) {
      assert.not(
        edge.lines.some((line) => line.includes(form)),
        "a secret is in the log",
      );
    }
    edge.child.kill("SIGTERM");
    assert.is(await edge.exited, 0, edge.lines.join("\n"));
    await environment.deleteTrigger(hook);
    await environment.deleteTrigger(open);
  });
}

function echo(payload: object, response: import("node:http").ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(payload));
}

test.after(async () => {
  edge?.child.kill("SIGKILL");
  await environment?.stop();
});

test.run();
