// @runtimes bun node deno
import { createHash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { PodGoneError } from "../../../edge/gateway/drivers/driver.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { eventually } from "../../eventually.ts";
import { failOnLag } from "../loop-lag.ts";
import { manualClock } from "../manual-clock.ts";
import { type AgentEnd, startAgentServer } from "./agent-server.ts";
import { chat, greet, hearRequest } from "./control-agent.ts";
import { callTo, failureOf, payload } from "./driver-call.ts";
import { httpAnswer, startWireServer, type WireRequest } from "./wire-server.ts";

const test = suite("connections to agents");
failOnLag(test);
const UPGRADE = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n";

/** Agents that answer "here". */
const answers = {
  "driver-a": async (agent: AgentEnd) => {
    await agent.hear();
    agent.say({ type: "ready" });
    await agent.hear();
    agent.say({ type: "output", text: "here" });
    agent.say({ type: "idle" });
  },
  "driver-b": async (agent: AgentEnd) => {
    await greet(agent);
    await hearRequest(agent);
    agent.say(chat(payload.id, "final", { message: { content: "here" } }));
  },
} as const;

const passing: Record<string, (request: WireRequest) => void> = {
  "a close": ({ socket }) => socket.end(),
  "a reset": ({ socket }) => socket.destroy(),
  "500": ({ socket }) => socket.end(httpAnswer(500)),
  "503": ({ socket }) => socket.end(httpAnswer(503, "starting")),
  "no HTTP": ({ socket }) => socket.end("hello\r\n\r\n"),
  "an endless head": ({ socket }) => socket.end(`HTTP/1.1 101 x\r\na: ${"x".repeat(1024 * 1024)}\r\n`),
  "an upgrade to another key": ({ socket }) => socket.end(`${UPGRADE}sec-websocket-accept: AAAA\r\n\r\n`),
  "an upgrade without a key": ({ socket }) => socket.end(`${UPGRADE}\r\n`),
  "compression that nobody asked for": ({ socket, head }) => {
    const key = /^sec-websocket-key: (.*)\r?$/im.exec(head)?.[1]?.trim();
    const accept = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.end(`${UPGRADE}sec-websocket-accept: ${accept}\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n`);
  },
};

const lasting: Record<string, (request: WireRequest) => void> = {
  "200": ({ socket }) => socket.end(httpAnswer(200, "hello")),
  "302": ({ socket }) => socket.end(httpAnswer(302, "", { location: "/ws2" })),
  "401": ({ socket }) => socket.end(httpAnswer(401)),
  "404": ({ socket }) => socket.end(httpAnswer(404)),
  "426": ({ socket }) => socket.end(httpAnswer(426)),
};

for (const driver of ["driver-a", "driver-b"] as const) {
  for (const [name, answer] of Object.entries(passing)) {
    test(`${driver}: a connection that fails with ${name} is tried once more, and nothing was sent`, async () => {
      const clock = manualClock();
      const server = await startWireServer(answer);
      const failure = failureOf(driverFor({ driver }, { clock })(callTo(server.port)));
      await clock.runWhenNextIs(1000);
      assert.is((await failure).nothingSent, true);
      assert.is(server.requests.length, 2);
      await server.drained();
      assert.is(clock.pending(), 0);
      await server.close();
    });
  }

  for (const [name, answer] of Object.entries(lasting)) {
    test(`${driver}: an upgrade that is answered with ${name} is not tried again, nor followed`, async () => {
      const clock = manualClock();
      const server = await startWireServer(answer);
      const { nothingSent, message } = await failureOf(driverFor({ driver }, { clock })(callTo(server.port)));
      assert.is(nothingSent, false);
      assert.match(
        message,
        new RegExp(`^Cannot open ws://127\\.0\\.0\\.1:${server.port}/(ws)?: it answered with status ${name}$`),
      );
      assert.is(server.requests.length, 1);
      await server.drained();
      assert.is(clock.pending(), 0);
      await server.close();
    });
  }

  test(`${driver}: a port that refuses is tried once more, and nothing was sent`, async () => {
    const clock = manualClock();
    const server = await startWireServer(() => undefined);
    await server.close();
    const failure = failureOf(driverFor({ driver }, { clock })(callTo(server.port)));
    await clock.runWhenNextIs(1000);
    assert.is((await failure).nothingSent, true);
    assert.is(clock.pending(), 0);
  });

  test(`${driver}: an address that the pod has lost meanwhile is not connected to again, and nothing was sent`, async () => {
    const clock = manualClock();
    const server = await startWireServer(({ socket }) => socket.destroy());
    const confirm = () => Promise.reject(new PodGoneError("moved"));
    const failure = failureOf(driverFor({ driver }, { clock })(callTo(server.port, { confirm })));
    await clock.runWhenNextIs(1000);
    const { nothingSent, message } = await failure;
    assert.equal([nothingSent, message], [true, "moved"]);
    assert.is(server.requests.length, 1);
    await server.drained();
    await server.close();
  });

  test(`${driver}: a pod that goes ends its socket at once, in the handshake as one that was sent nothing`, async () => {
    for (const isAsked of [false, true]) {
      let reached: () => void = () => undefined;
      const isThere = new Promise<void>((resolve) => {
        reached = resolve;
      });
      const server = await startAgentServer(async (agent) => {
        if (isAsked && driver === "driver-a") {
          await agent.hear();
          agent.say({ type: "ready" });
          await agent.hear();
        } else if (isAsked) {
          await greet(agent);
          await hearRequest(agent);
        }
        reached();
        await new Promise(() => undefined);
      });
      const gone = new AbortController();
      const failure = failureOf(driverFor({ driver }, { clock: manualClock() })(callTo(server.port, gone)));
      await isThere;
      gone.abort(new PodGoneError("the pod is gone"));
      const { nothingSent, message } = await failure;
      assert.equal([nothingSent, message], [!isAsked, "the pod is gone"]);
      await eventually(() => server.open() === 0);
      await server.close();
    }
  });

  test(`${driver}: a port that opens during the pause gets the event`, async () => {
    const clock = manualClock();
    const refusing = await startWireServer(() => undefined);
    await refusing.close();
    const reply = driverFor({ driver }, { clock })(callTo(refusing.port));
    await eventually(() => clock.nextIn() === 1000);
    const server = await startAgentServer(answers[driver], { port: refusing.port });
    await clock.runWhenNextIs(1000);
    assert.is((await reply).text, "here");
    await server.close();
  });

  test(`${driver}: a server that is silent on the upgrade is given up after 10 s, twice`, async () => {
    const clock = manualClock();
    const server = await startWireServer(() => undefined);
    const failure = failureOf(driverFor({ driver }, { clock })(callTo(server.port)));
    await eventually(() => server.requests.length === 1);
    await clock.runWhenNextIs(10_000);
    await clock.runWhenNextIs(1000);
    await eventually(() => server.requests.length === 2);
    await clock.runWhenNextIs(10_000);
    const { nothingSent, cause } = await failure;
    assert.is(nothingSent, true);
    assert.is((cause as Error).name, "TimeoutError");
    await server.drained();
    assert.is(clock.pending(), 0);
    await server.close();
  });

  /** What the agent says before the call is aborted. */
  const moments: Record<string, (agent: AgentEnd) => Promise<void>> = {
    "with the connection just open": async () => undefined,
    "in the handshake": async (agent) => {
      if (driver === "driver-b")
        await greet({ ...agent, say: (message) => isChallenge(message) && agent.say(message) });
      else await agent.hear();
    },
    "with the event sent": async (agent) => {
      if (driver === "driver-b") await greet(agent);
      else agent.say({ type: "ready", after: await agent.hear() });
      await agent.hear();
    },
    "in the middle of the answer": async (agent) => {
      if (driver === "driver-b") await greet(agent);
      else agent.say({ type: "ready", after: await agent.hear() });
      await agent.hear();
      agent.say(driver === "driver-b" ? chat(payload.id, "delta", { deltaText: "a" }) : { type: "output", text: "a" });
    },
  };
  for (const [name, play] of Object.entries(moments)) {
    test(`${driver}: an abort ends it with the signal's reason and leaves no connection or timer: ${name}`, async () => {
      const clock = manualClock();
      const controller = new AbortController();
      const reason = new Error("stop");
      const server = await startAgentServer(async (agent) => {
        await play(agent);
        controller.abort(reason);
      });
      const call = driverFor({ driver }, { clock })(callTo(server.port, controller));
      assert.is(await call.catch((error: unknown) => error), reason);
      await eventually(() => server.open() === 0);
      assert.is(server.conversations.length, 1);
      assert.is(clock.pending(), 0);
      await server.close();
    });
  }

  test(`${driver}: an abort before the call, during the upgrade and during the pause ends it`, async () => {
    const clock = manualClock();
    const reason = new Error("stop");
    const drive = driverFor({ driver }, { clock });
    const during = new AbortController();
    const server = await startWireServer(() => during.abort(reason));
    assert.is(
      await drive(callTo(server.port, { signal: AbortSignal.abort(reason) })).catch((error: unknown) => error),
      reason,
    );
    assert.is(server.connections(), 0);
    assert.is(await drive(callTo(server.port, during)).catch((error: unknown) => error), reason);
    await server.drained();
    await server.close();
    const pausing = new AbortController();
    const call = drive(callTo(server.port, pausing));
    await eventually(() => clock.nextIn() === 1000);
    pausing.abort(reason);
    assert.is(await call.catch((error: unknown) => error), reason);
    assert.is(clock.pending(), 0);
  });
}

function isChallenge(message: unknown): boolean {
  return (message as { event?: string }).event === "connect.challenge";
}

test.run();
