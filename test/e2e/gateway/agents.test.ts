// @limit 1800
// @waits
import { mkdtempSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  ECHO_AGENT_BRIDGE_IMAGE,
  ECHO_AGENT_CONTROL_IMAGE,
  ECHO_HTTP_IMAGE,
} from "../../../scripts/cluster/images/local-images.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile } from "../cluster-of-file.ts";
import { loggingAgentControl, namedAgentBridge, namedHttp } from "./named-programs.ts";

const TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw";
const examples = "manifests/examples";
const test = suite("events reach real containers");
let stack: Stack;
let messenger: FakeMessenger;
let apiBaseUrl: string;
const poolFile = join(mkdtempSync(join(tmpdir(), "tenancy-gateway-")), "pool.json");

test.before(async () => {
  messenger = new FakeMessenger();
  apiBaseUrl = await messenger.start();
  stack = await startStack(clusterOfFile("e2e-gateway"));
  await stack.kubectl("apply", "-f", `${examples}/echo-http-workload.yaml`);
  for (const [name, image, entrypoint] of [
    ["named", ECHO_HTTP_IMAGE, namedHttp],
    ["named-agent", ECHO_AGENT_BRIDGE_IMAGE, namedAgentBridge],
    ["herald", ECHO_AGENT_CONTROL_IMAGE, loggingAgentControl],
  ] as const) {
    const resources = { vcpus: 1, memoryMb: 64, diskGb: 1 };
    const health = { httpGet: { path: "/", port: 8080 } };
    const spec = { image: { ref: image }, entrypoint, resources, health, network: { ports: [8080] } };
    const { status, body } = await stack.call("POST", "/workloads", { name, spec });
    assert.is(status, 201, JSON.stringify(body));
  }
});

async function apply(object: object): Promise<void> {
  const { status, body } = await stack.call("POST", "/triggers", object);
  assert.ok(status === 200 || status === 201, JSON.stringify(body));
}

/** Waits for what a person would wait for, with the trigger's own words when it does not come. */
async function until<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  let found: T | undefined;
  const lookAgain = async () => {
    found = await look();
    return found !== undefined;
  };
  await waitUntil(lookAgain, { what, limitMs: 120_000, intervalMs: 100 }).catch(async (error: Error) => {
    throw new Error(`${error.message}\n${await stack.kubectl("get", "tt,tc,pods", "-o", "wide")}\n${stack.output()}`);
  });
  return found as T;
}

async function untilServed(name: string): Promise<void> {
  await until(`trigger ${name} to be served`, async () => {
    const { body } = await stack.call("GET", `/triggers/${name}`);
    return (body.status as { phase?: string } | undefined)?.phase === "Active" ? true : undefined;
  });
}

function hook(body: unknown, path = "echo"): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(`${stack.url}/hooks/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
}

interface Claimed {
  readonly workloadRef: string;
  readonly instanceId: string;
}

async function claimOf(tenant: string, workload: string): Promise<Claimed | undefined> {
  const claims = (await stack.call("GET", `/tenants/${tenant}`)).body.claims as Claimed[];
  return claims.find(({ workloadRef, instanceId }) => workloadRef === workload && instanceId !== undefined);
}

const instanceOf = async (tenant: string) => (await claimOf(tenant, "named-agent"))?.instanceId;

test("a cron trigger is asked for every minute, to be looked at in the end", async () => {
  const spec = {
    type: "cron",
    workloadRef: "herald",
    tenant: { static: "dave" },
    driver: "driver-b",
    config: { schedule: "* * * * *", payload: { task: "say good morning" } },
  };
  await apply({ name: "every-minute", spec });
  await untilServed("every-minute");
});

test("a webhook is answered by the tenant's own container, and a tenant who may not is told so", async () => {
  await stack.kubectl("apply", "-f", `${examples}/echo-http-trigger.yaml`);
  await untilServed("echo-http");
  const first = await hook({ user: { name: "dave" }, question: "who?" });
  const answer = await first.text();
  assert.is(first.status, 200, answer);
  const payload = JSON.parse(answer);
  assert.is(payload.tenantId, "dave");
  assert.is(payload.source, "webhook");
  assert.equal(payload.data, { user: { name: "dave" }, question: "who?" });
  assert.is((await hook({ user: { name: "erin" } })).status, 200);
  const named = {
    type: "webhook",
    workloadRef: "named",
    tenant: { from: "user.name" },
    config: { path: "/hooks/named" },
  };
  await apply({ name: "named", spec: named });
  await untilServed("named");
  for (const name of ["dave", "erin", "dave"]) {
    const text = await (await hook({ user: { name } }, "named")).text();
    const [instance, ...rest] = text.split(" ");
    assert.is(instance, (await claimOf(name, "named"))?.instanceId, text);
    assert.is(JSON.parse(rest.join(" ")).tenantId, name);
  }
  assert.is.not((await claimOf("dave", "named"))?.instanceId, (await claimOf("erin", "named"))?.instanceId);
  const denied = await hook({ user: { name: "mallory" } });
  assert.is(denied.status, 403);
  assert.equal(await denied.json(), { error: "this hook is for dave and erin" });
  const tenants = (await stack.call("GET", "/tenants")).body as unknown as { tenantId: string }[];
  assert.not(tenants.some(({ tenantId }) => tenantId === "mallory"));
});

test("a message to a bot is answered by the chat's own agent, with and without a pod that waits", async () => {
  await stack.kubectl("create", "secret", "generic", "echo-bot", `--from-literal=token=${TOKEN}`);
  const spec = {
    type: "messenger",
    workloadRef: "named-agent",
    tenant: { from: "chatId", prefix: "chat-" },
    driver: "driver-a",
    config: { botTokenSecretRef: { name: "echo-bot", key: "token" }, updateTypes: ["message"], apiBaseUrl },
  };
  const bot = messenger.bot(TOKEN);
  await apply({ name: "bot", spec });
  await untilServed("bot");

  async function ask(chatId: number, text: string): Promise<void> {
    const known = bot.sent.length;
    bot.write({ chat: { id: chatId, type: "private" }, text });
    const reply = await until(`an answer to ${text}`, () =>
      bot.sent.slice(known).find((sent) => sent.chatId === chatId),
    );
    assert.is(reply.text, `${await instanceOf(`chat-${chatId}`)}: ${text}`);
  }

  await ask(1001, "is anybody there, from a cold start?");
  assert.ok(bot.typing.includes(1001), "typing was shown while the pod started");
  await ask(1001, "and now, with a pod?");
  const pool = { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyPool", metadata: { name: "agents" } };
  await writeFile(poolFile, JSON.stringify({ ...pool, spec: { workloadRef: "named-agent", size: 1 } }));
  await stack.kubectl("apply", "-f", poolFile);
  await stack.kubectl("wait", "tp/agents", "--for=jsonpath={.status.ready}=1", "--timeout=180s");
  await ask(1002, "is anybody there, from a warm pod?");
  assert.is.not(await instanceOf("chat-1001"), await instanceOf("chat-1002"));
});

test("the cron tick has fired, and its agent was asked", async () => {
  const instance = await until("the tick's claim", async () => (await claimOf("dave", "herald"))?.instanceId);
  await until("the agent to be asked", async () =>
    (await stack.kubectl("logs", instance)).includes("say good morning") ? true : undefined,
  );
});

test.after(async () => {
  await stack?.interrupt();
  await messenger.stop();
});

test.run();
