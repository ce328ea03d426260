import { Webhook } from "standardwebhooks";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import type { TriggerPayload } from "../../../edge/gateway/drivers/driver.ts";
import { startReadyEdge } from "../../unit/edge/edge-process.ts";
import { KEY, type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { NAMESPACE } from "../tenancy.ts";
import { deliver, type GatewayEnvironment, SECRET, startGatewayEnvironment } from "./gateway-environment.ts";

const test = suite("deliveries on a real API server");
const PLANTED = "planted-S3CRET-word";
let environment: GatewayEnvironment;
let edge: RestEdge;

test.before(async () => {
  environment = await startGatewayEnvironment("gateway-deliveries");
  await environment.writeSecret("hook", { secret: SECRET });
  const secretRef = { name: "hook", key: "secret" };
  await environment.createTrigger("signed", { tenant: { from: "who" }, config: { path: "/hooks/signed", secretRef } });
  edge = await startRestEdge("bun", { KUBECONFIG: environment.tenancy.cluster.kubeconfigPath });
  await environment.untilActive("signed");
});
test.after(async () => {
  await edge?.stop();
  await environment?.stop();
});

const read = async (name: string, key?: { key: string | undefined }) =>
  edge.call("GET /api/v1/triggers/{id}/deliveries", { path: `/api/v1/triggers/${name}/deliveries`, ...key });
const deliveriesOf = async (name: string) => ((await read(name)).json as ApiTypes["Deliveries"]).deliveries;
const send = (name: string, body: unknown, key?: { key: string | undefined }) =>
  edge.call("POST /api/v1/triggers/{id}/test", { path: `/api/v1/triggers/${name}/test`, body, ...key });

test("what became of events is kept, and nothing of what they or their answers said", async () => {
  const url = `${edge.process.url}/hooks/signed`;
  const body = { who: "alice", word: PLANTED };
  environment.container.onPayload = ({ data }, response) =>
    void response.writeHead(202, { "x-word": PLANTED, "content-type": "text/plain" }).end(JSON.stringify(data));
  const headers = { authorization: `Bearer ${PLANTED}`, "x-word": PLANTED };
  await deliver(url, body, { secret: SECRET, id: "d1", headers });
  await deliver(url, body, { secret: SECRET, id: "d1", headers });
  await deliver(url, body, { headers, id: PLANTED });
  await deliver(url, { word: PLANTED }, { secret: SECRET, id: "d2" });
  await deliver(url, PLANTED, { secret: SECRET, headers: { "content-type": PLANTED }, id: PLANTED });
  environment.container.onPayload = (_, response) => void response.writeHead(200).destroy(new Error(PLANTED));
  await deliver(url, body, { secret: SECRET, id: "d3" });
  const answer = await read("signed");
  assert.not.ok(answer.text.includes(PLANTED), answer.text);
  const { deliveries } = answer.json as ApiTypes["Deliveries"];
  assert.equal(
    deliveries.map(({ result, status, tenantId }) => [result, status, tenantId]),
    [
      ["failed", 502, "alice"],
      ["rejected", 400, undefined],
      ["refused", 400, undefined],
      ["unsigned", 401, undefined],
      ["repeated", 202, undefined],
      ["answered", 202, "alice"],
    ],
  );
  const first = deliveries.at(-1);
  assert.is(first?.id, "signed-d1");
  assert.is(first?.source, "cold");
  assert.match(first?.instanceId ?? "", /^inst-/);
  assert.not.ok(edge.process.lines.join("\n").includes(PLANTED));
});

test("a test event takes the way of a real one, needs no signature but the key, and is marked", async () => {
  environment.container.onPayload = ({ data, source, tenantId }, response) =>
    void response
      .writeHead(418, { "content-type": "text/html", "set-cookie": "a=b" })
      .end(`<script>${JSON.stringify([source, tenantId, data])}</script>`);
  assert.is((await send("signed", { data: { who: "bob" } }, { key: undefined })).status, 401);
  assert.is((await read("signed", { key: undefined })).status, 401);
  const { status, json } = await send("signed", { data: { a: 1 }, fields: { who: "bob" } });
  assert.is(status, 200);
  const outcome = json as ApiTypes["TestDelivery"];
  assert.is(outcome.body, `<script>["webhook","bob",{"a":1}]</script>`);
  assert.is(outcome.contentType, "text/html");
  assert.equal([outcome.result, outcome.status, outcome.tenantId, outcome.test], ["answered", 418, "bob", true]);
  await environment.tenancy.client.get(claims, { namespace: NAMESPACE, name: "claim-bob-app" });
  const [newest] = await deliveriesOf("signed");
  assert.equal([newest?.id, newest?.test, "body" in (newest ?? {})], [outcome.id, true, false]);

  const refused = (await send("signed", { data: {} })).json as ApiTypes["TestDelivery"];
  assert.is(refused.result, "refused");
  assert.match(refused.message ?? "", "has no field who");
  assert.is((await send("signed", { data: {}, more: 1 })).status, 400);
  assert.is((await send("none", { data: {} })).status, 404);
});

test("a trigger with a signing secret sends nothing unsigned, and no signature of a caller's", async () => {
  const [old, next] = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`) as [string, string];
  const signing = { secretRef: { name: "signing", key: "secret" } };
  const config = { path: "/hooks/signs" };
  await environment.createTrigger("signs", { config, signing });
  const missing = "Secret signing does not exist; create it with the key secret";
  const untilError = (detail: string) => environment.untilTrigger("signs", (status) => status.detail === detail);
  await untilError(missing);
  await environment.writeSecret("signing", { secret: old });
  await environment.untilActive("signs");
  const seen: { payload?: TriggerPayload; headers: Record<string, string> }[] = [];
  environment.container.onPayload = (payload, response) => {
    seen.push({ payload, headers: response.req.headers as Record<string, string> });
    response.end("ok");
  };
  const isSignedWith = (secret: string) => {
    const { payload, headers } = seen.at(-1) ?? { headers: {} };
    assert.is(headers["webhook-id"], payload?.id);
    try {
      return new Webhook(secret).verify(JSON.stringify(payload), headers) !== undefined;
    } catch {
      return false;
    }
  };
  const url = `${edge.process.url}/hooks/signs`;
  const forged = { "webhook-id": "forged", "webhook-timestamp": "1", "webhook-signature": "v1,forged" };
  assert.is((await deliver(url, {}, { headers: forged })).status, 200);
  assert.is(seen.at(-1)?.payload?.id, "signs-forged");
  assert.equal([isSignedWith(old), isSignedWith(next)], [true, false]);

  await environment.writeSecret("signing", { secret: `${next}, ${old}\n` });
  await environment.tenancy.until("both sign", async () => {
    await deliver(url, {});
    return isSignedWith(next) && isSignedWith(old);
  });
  await environment.createTrigger("ticks", { type: "cron", config: { schedule: "0 0 29 2 *" }, signing });
  await environment.untilActive("ticks");
  assert.is(((await send("ticks", {})).json as ApiTypes["TestDelivery"]).result, "answered");
  assert.equal([seen.at(-1)?.payload?.source, isSignedWith(next)], ["cron", true]);
  const before = seen.length;
  await environment.writeSecret("signing", { secret: "not a secret" });
  await environment.untilTrigger("signs", ({ detail = "" }) =>
    /^spec\.signing\.secretRef: .* must be whsec_/.test(detail),
  );
  assert.is((await deliver(url, {})).status, 503);
  await environment.tenancy.client.delete(secrets, { namespace: NAMESPACE, name: "signing" });
  await untilError(`spec.signing.secretRef: ${missing}`);
  assert.is((await deliver(url, {})).status, 503);
  assert.is(((await send("ticks", {})).json as ApiTypes["TestDelivery"]).result, "failed");
  assert.is(seen.length, before);
  await environment.writeSecret("signing", { secret: next });
  await environment.untilActive("signs");
  assert.is((await deliver(url, {})).status, 200);
  assert.ok(isSignedWith(next));
  const words = edge.process.lines.join("\n");
  for (const secret of ["not a secret", old, next]) assert.not.ok(words.includes(secret));
});

test("a trigger that is not served says why; one that is deleted leaves nothing", async () => {
  await environment.createTrigger("broken", {
    tenant: { static: "a" },
    config: { path: "/hooks/broken", secretRef: { name: "missing", key: "k" } },
  });
  await environment.untilTrigger("broken", ({ phase }) => phase === "Error");
  const answer = await edge.call("POST /api/v1/triggers/{id}/test", {
    path: "/api/v1/triggers/broken/test",
    body: { data: {} },
  });
  assert.is(answer.status, 409, answer.text);
  assert.match(answer.text, "missing");

  await environment.deleteTrigger("signed");
  await environment.tenancy.until("the trigger is gone", async () => (await read("signed")).status === 404);
  const path = "/hooks/signed";
  await environment.createTrigger("signed", { tenant: { from: "who" }, config: { path } });
  await environment.untilActive("signed");
  assert.equal(await deliveriesOf("signed"), []);
  assert.equal(edge.problems, []);
});

test("an edge that is no gateway says who keeps deliveries", async () => {
  const env = { KUBECONFIG: environment.tenancy.cluster.kubeconfigPath, TENANCY_EDGE_ROLES: "api" };
  const split = await startRestEdge("bun", env);
  const path = "/api/v1/triggers/signed/deliveries";
  const { status, text } = await split.call("GET /api/v1/triggers/{id}/deliveries", { path });
  assert.is(status, 404);
  assert.match(text, "TENANCY_EDGE_ROLES contains gateway");
  assert.equal(split.problems, []);
  await split.stop();
});

test("a gateway alone serves them behind the key, and to nobody where it asks for none", async () => {
  const env = { KUBECONFIG: environment.tenancy.cluster.kubeconfigPath, TENANCY_EDGE_ROLES: "gateway" };
  const alone = await startReadyEdge("bun", { ...env, TENANCY_API_KEY: KEY });
  const path = "/api/v1/triggers/signed/deliveries";
  const ask = async (headers: Record<string, string>) => (await fetch(`${alone.url}${path}`, { headers })).status;
  assert.is(await ask({}), 401);
  assert.is(await ask({ authorization: `Bearer ${KEY}` }), 200);
  alone.child.kill("SIGTERM");
  await alone.exited;
  const open = await startReadyEdge("bun", { ...env, TENANCY_ALLOW_ANONYMOUS: "true" });
  for (const other of [path, "/api/v1/session"]) assert.is((await fetch(`${open.url}${other}`)).status, 404, other);
  open.child.kill("SIGTERM");
  await open.exited;
});

test.run();
