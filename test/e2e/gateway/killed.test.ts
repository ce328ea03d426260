// @limit 1800
import { setTimeout as sleep } from "node:timers/promises";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { claims, triggers } from "../../../crds/kinds.ts";
import { ECHO_AGENT_BRIDGE_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { type EdgeProcess, startEdgeProcess } from "../../unit/edge/edge-process.ts";
import { type Lifecycle, NAMESPACE, startLifecycle } from "../snapshots/lifecycle.ts";
import { namedAgentBridge } from "./named-programs.ts";

const TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw";
const CHATS = 16;
const MESSAGES = 96;
const WRITING_MS = 15_000;
const LIMIT_MS = 480_000;

const test = suite<{ life: Lifecycle; messenger: FakeMessenger; apiBaseUrl: string }>(
  "messages while edges and operator are killed",
);

test.before(async (context) => {
  context.messenger = new FakeMessenger();
  context.apiBaseUrl = await context.messenger.start();
  context.life = await startLifecycle(`e2e-killed-${process.pid}`);
});
test.after(async ({ life, messenger }) => {
  await life?.down();
  await messenger.stop();
});

test("96 messages of 16 chats are each answered once, in order within their chat", async (context) => {
  const { life, messenger, apiBaseUrl } = context;
  const bot = messenger.bot(TOKEN);
  await life.startOperator();
  await life.createWorkload("echo", {
    image: { ref: ECHO_AGENT_BRIDGE_IMAGE },
    entrypoint: namedAgentBridge,
    resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
    filesystem: { overlayDirs: [] },
    network: { access: "none", ports: [8080] },
  });
  const stringData = { token: TOKEN };
  await life.client.create(secrets, { metadata: { name: "bot", namespace: NAMESPACE }, stringData });
  await life.client.create(triggers, {
    metadata: { name: "bot", namespace: NAMESPACE },
    spec: {
      type: "messenger",
      workloadRef: "echo",
      tenant: { from: "chatId", prefix: "chat-" },
      driver: "driver-a",
      config: { botTokenSecretRef: { name: "bot", key: "token" }, apiBaseUrl, pollTimeoutSeconds: 5 },
    },
  });
  const env = {
    KUBECONFIG: life.cluster.kubeconfigPath,
    TENANCY_LEASE_SECONDS: "2",
    TENANCY_TRIGGER_CLAIM_WAIT: "300",
  };
  const edges: EdgeProcess[] = await Promise.all([startEdgeProcess("bun", env), startEdgeProcess("node", env)]);
  const writing = write();
  const kills = { edges: 0, operator: 0 };
  try {
    const deadline = Date.now() + LIMIT_MS;
    while (answered().size < MESSAGES && Date.now() < deadline) {
      await sleep(1500 + Math.random() * 3000);
      if ((kills.edges + kills.operator) % 3 === 1) {
        await life.killOperator();
        await life.startOperator();
        kills.operator += 1;
      } else {
        const index = Math.floor(Math.random() * edges.length);
        edges[index]?.child.kill("SIGKILL");
        await edges[index]?.exited;
        edges[index] = await startEdgeProcess((["deno", "node", "bun"] as const)[kills.edges % 3] ?? "bun", env);
        kills.edges += 1;
      }
    }
    await writing;
    // A second answer would come after the first.
    await waitUntil(() => bot.confirmed === bot.nextUpdateId, {
      ...{ what: "every update to be confirmed", limitMs: 120_000, intervalMs: 100 },
      explain: () => `${bot.confirmed} of ${bot.nextUpdateId}`,
    });
  } finally {
    for (const { child, exited } of edges) {
      child.kill("SIGKILL");
      await exited;
    }
  }
  assert.ok(kills.edges > 0 && kills.operator > 0, "both were killed meanwhile");
  const answers = bot.sent.length;
  console.log(
    `note: ${answers} answers to ${MESSAGES} messages of ${CHATS} chats, ${kills.edges} edges and ${kills.operator} operators killed`,
  );
  const { items } = await life.client.list(claims, { namespace: NAMESPACE });
  for (let chat = 1; chat <= CHATS; chat++) {
    const own = items.find(({ spec }) => spec.tenantId === `chat-${chat}`)?.status?.instanceId;
    assert.ok(own);
    const seen = bot.sent.filter(({ chatId }) => chatId === chat).map(({ text }) => text);
    const expected = Array.from({ length: MESSAGES / CHATS }, (_, index) => `${own}: ${chat}.${index}`);
    assert.equal(seen, expected, `the answers to chat ${chat}, by its own container`);
  }

  function answered(): Set<string> {
    return new Set(bot.sent.map(({ text }) => text));
  }

  async function write(): Promise<void> {
    for (let index = 0; index < MESSAGES / CHATS; index++) {
      for (let chat = 1; chat <= CHATS; chat++) {
        bot.write({ chat: { id: chat, type: "private" }, text: `${chat}.${index}` });
        await sleep(WRITING_MS / MESSAGES);
      }
    }
  }
});

test.run();
