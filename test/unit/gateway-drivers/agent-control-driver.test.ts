// @runtimes bun node deno
import { createHash, createPublicKey, verify } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { DriverCall } from "../../../edge/gateway/drivers/driver.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { type AgentEnd, withAgent } from "./agent-server.ts";
import { CHALLENGE, type ControlRequest, chat, greet, hearRequest, NONCE, said } from "./control-agent.ts";
import { callTo, failureOf, payload, prompted } from "./driver-call.ts";

const test = suite("driver-b");
const drive = driverFor({ driver: "driver-b" });

const promptTo = (port: number, more: Partial<DriverCall> = {}) => callTo(port, { payload: prompted, ...more });

/** An agent that acknowledges `chat.send` and then says these messages. */
function answering(...messages: unknown[]): (agent: AgentEnd) => Promise<void> {
  return async (agent) => {
    await greet(agent);
    const { id } = await hearRequest(agent);
    agent.say({ type: "res", id, ok: true, payload: { runId: payload.id, status: "started" } });
    for (const message of messages) agent.say(message);
  };
}

test("connects, sends the message for the tenant's session, and answers with the final message", async () => {
  const requests: ControlRequest[] = [];
  const play = async (agent: AgentEnd) => {
    requests.push(await greet(agent));
    const request = await hearRequest(agent);
    requests.push(request);
    agent.say({ type: "res", id: request.id, ok: true, payload: { runId: payload.id, status: "started" } });
    agent.say(chat(payload.id, "delta", { deltaText: "so ", ...said("so ") }));
    agent.say(chat(payload.id, "final", said("so be it 🙂")));
  };
  await withAgent(play, async ({ port, conversations }) => {
    const reply = await drive(promptTo(port));
    assert.is(reply.text, "so be it 🙂");
    assert.is(reply.status, 200);
    assert.is(reply.contentType, "text/plain; charset=utf-8");
    const [connect, send] = requests;
    assert.is(connect?.method, "connect");
    assert.equal(connect?.params, {
      minProtocol: 3,
      maxProtocol: 4,
      client: { id: "gateway-client", displayName: "tenancy", version: "1", platform: "linux", mode: "backend" },
      role: "operator",
      scopes: ["operator.read", "operator.write"],
      caps: [],
    });
    assert.is(send?.method, "chat.send");
    assert.equal(send?.params, { sessionKey: "Dave", message: "héllo 🙂", idempotencyKey: "evt-1" });
    const [conversation] = conversations;
    assert.is(conversation?.path, "/");
    assert.is(conversation?.headers["x-forwarded-user"], "tenancy");
    assert.is(await conversation?.closed, 1000);
  });
});

test("with a token, a device of that token signs the challenge, and no proxy's headers are sent", async () => {
  const devices: string[] = [];
  for (const token of ["one", "one", "two"]) {
    let connect: ControlRequest | undefined;
    const play = async (agent: AgentEnd) => {
      connect = await greet(agent);
      await hearRequest(agent);
      agent.say(chat(payload.id, "final"));
    };
    await withAgent(play, async ({ port, conversations }) => {
      assert.is((await drive(promptTo(port, { token }))).text, "");
      assert.is(conversations[0]?.headers["x-forwarded-user"], undefined);
      assert.equal(connect?.params.auth, { token });
      const device = connect?.params.device as Record<"id" | "publicKey" | "signature" | "nonce", string>;
      assert.is(device.nonce, NONCE);
      const raw = Buffer.from(device.publicKey, "base64url");
      assert.is(device.id, createHash("sha256").update(raw).digest("hex"));
      const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: device.publicKey }, format: "jwk" });
      const signed = `v3|${device.id}|gateway-client|backend|operator|operator.read,operator.write|1700000000000|${token}|${NONCE}|linux|`;
      assert.ok(verify(null, Buffer.from(signed), key, Buffer.from(device.signature, "base64url")));
      devices.push(device.id);
    });
  }
  assert.is(devices[0], devices[1]);
  assert.is.not(devices[0], devices[2]);
});

test("prompts with the data as JSON where nobody wrote a text", async () => {
  await withAgent(answering(chat(payload.id, "final")), async ({ port, heard }) => {
    await drive(promptTo(port, { payload }));
    assert.equal(heard[1]?.params, {
      sessionKey: "Dave",
      message: JSON.stringify(payload.data),
      idempotencyKey: "evt-1",
    });
  });
});

test("other runs, other events and answers to other requests are no part of the answer", async () => {
  const play = async (agent: AgentEnd) => {
    agent.say({ type: "event", event: "tick", payload: { ts: 1 } });
    agent.say({ type: "hello" });
    agent.say(CHALLENGE);
    const { id } = await hearRequest(agent);
    agent.say({ type: "res", id: `${id}-other`, ok: false, error: { code: "X", message: "not for you" } });
    agent.say({ type: "event", event: "health" });
    agent.say({ type: "res", id, ok: true, payload: {} });
    const send = await hearRequest(agent);
    // Events may come before the acknowledgement.
    agent.say(chat(payload.id, "delta", said("mine")));
    agent.say({ type: "res", id: `${send.id}-other`, ok: false, error: { code: "X", message: "not for you" } });
    agent.say({ type: "res", id: send.id, ok: true, payload: { runId: payload.id, status: "started" } });
    agent.say(chat("another", "final", said("theirs")));
    agent.say(chat("another", "error", { errorMessage: "theirs" }));
    agent.say({ type: "event", event: "chat", payload: "odd" });
    agent.say({ type: "event", event: "agent", payload: { runId: payload.id, state: "final" } });
    agent.say(chat(payload.id, "status", { phase: "starting_model" }));
    agent.say(chat(payload.id, "final"));
    agent.say(chat(payload.id, "final", said("too late")));
    agent.say(chat(payload.id, "error", { errorMessage: "too late" }));
  };
  await withAgent(play, async ({ port }) => assert.is((await drive(promptTo(port))).text, "mine"));
});

test("a run that the server gave a name of its own is followed", async () => {
  const play = async (agent: AgentEnd) => {
    await greet(agent);
    const { id } = await hearRequest(agent);
    agent.say({ type: "res", id, ok: true, payload: { runId: "run-7", status: "started" } });
    agent.say(chat("run-7", "final", said("seven")));
  };
  await withAgent(play, async ({ port }) => assert.is((await drive(promptTo(port))).text, "seven"));
});

const pieces: Record<string, { events: object[]; text: string }> = {
  "pieces alone": {
    events: [{ deltaText: "a" }, { deltaText: "b" }, {}, { deltaText: "c" }],
    text: "abc",
  },
  "pieces and a replacement": {
    events: [{ deltaText: "draft" }, { deltaText: "new", replace: true }, { deltaText: "er" }],
    text: "newer",
  },
  "the answer so far, each time": { events: [said("a"), said("ab"), { deltaText: "!", ...said("ab!") }], text: "ab!" },
  "content that is a text": { events: [{ message: { role: "assistant", content: "plain" } }], text: "plain" },
  "blocks of several types": {
    events: [
      {
        message: {
          content: [{ type: "thinking", text: "hm" }, { type: "text", text: "a" }, 5, { type: "text", text: "b" }],
        },
      },
    ],
    text: "ab",
  },
};
for (const [name, { events, text }] of Object.entries(pieces)) {
  test(`a final event without a message ends: ${name}`, async () => {
    const deltas = events.map((event) => chat(payload.id, "delta", event));
    await withAgent(answering(...deltas, chat(payload.id, "final")), async ({ port }) => {
      assert.is((await drive(promptTo(port))).text, text);
    });
  });
}

test("a repeated event whose run goes on is answered by that run", async () => {
  const play = async (agent: AgentEnd) => {
    await greet(agent);
    const { id } = await hearRequest(agent);
    agent.say({ type: "res", id, ok: true, payload: { runId: payload.id, status: "in_flight" } });
    agent.say(chat(payload.id, "final", said("still there")));
  };
  await withAgent(play, async ({ port }) => assert.is((await drive(promptTo(port))).text, "still there"));
});

test("a repeated event whose run falls silent is asked for again, until its run has ended", async () => {
  const clock = manualClock();
  const statuses: string[] = [];
  const play = async (agent: AgentEnd) => {
    await greet(agent);
    for (const status of ["in_flight", "in_flight", "ok"]) {
      const { id, method, params } = await hearRequest(agent);
      assert.is(method, "chat.send");
      assert.is(params.idempotencyKey, payload.id);
      statuses.push(status);
      agent.say({ type: "res", id, ok: true, payload: { runId: payload.id, status } });
    }
    const { id } = await hearRequest(agent);
    const messages = [{ role: "assistant", content: "kept", __openclaw: { runId: payload.id } }];
    agent.say({ type: "res", id, ok: true, payload: { messages } });
  };
  await withAgent(play, async ({ port }) => {
    const reply = driverFor({ driver: "driver-b" }, { clock })(promptTo(port));
    await clock.runWhenNextIs(5000);
    await eventually(() => statuses.length === 2);
    await clock.runWhenNextIs(5000);
    assert.is((await reply).text, "kept");
    assert.is(clock.pending(), 0);
  });
});

function repeated(messages: unknown): (agent: AgentEnd) => Promise<void> {
  return async (agent) => {
    await greet(agent);
    const { id } = await hearRequest(agent);
    agent.say({ type: "res", id, ok: true, payload: { runId: payload.id, status: "ok" } });
    const history = await hearRequest(agent);
    assert.is(history.method, "chat.history");
    assert.equal(history.params, { sessionKey: "Dave", limit: 50 });
    agent.say({ type: "res", id: history.id, ok: true, payload: { messages } });
  };
}

test("a repeated event whose run has ended is answered from the history", async () => {
  const row = (role: string, runId: string, text: string) => ({
    role,
    content: [{ type: "text", text }],
    __openclaw: { runId },
  });
  const messages = [
    row("assistant", payload.id, "first part"),
    row("assistant", payload.id, "the answer"),
    row("assistant", "another", "theirs"),
    row("user", payload.id, "the question"),
    "odd",
  ];
  await withAgent(repeated(messages), async ({ port }) => assert.is((await drive(promptTo(port))).text, "the answer"));
  for (const none of [[], [row("assistant", "another", "theirs")], undefined]) {
    await withAgent(repeated(none), async ({ port }) => {
      const { nothingSent, message } = await failureOf(drive(promptTo(port)));
      assert.is(nothingSent, false);
      assert.match(message, /has answered this event before/);
    });
  }
});

const failures: Record<string, { messages: unknown[]; says: RegExp }> = {
  error: {
    messages: [chat(payload.id, "delta", said("so")), chat(payload.id, "error", { errorMessage: "no\nmodel" })],
    says: /^the agent's run failed: no model$/,
  },
  aborted: {
    messages: [chat(payload.id, "aborted", { stopReason: "rpc" })],
    says: /^the agent's run was aborted: rpc$/,
  },
  "aborted without a reason": { messages: [chat(payload.id, "aborted")], says: /no reason given$/ },
  "broken JSON": { messages: ["{"], says: /other than a JSON object/ },
  "a frame without a type": { messages: ["{}"], says: /malformed frame/ },
  "an event without a name": { messages: [{ type: "event" }], says: /malformed frame/ },
  "a response without an id": { messages: [{ type: "res", ok: true }], says: /malformed frame/ },
  "a message over 1 MiB": {
    messages: [chat(payload.id, "final", said("x".repeat(1024 * 1024)))],
    says: /lost|closed/,
  },
  "an answer over 1 MiB in all": {
    messages: Array(17).fill(chat(payload.id, "delta", { deltaText: "x".repeat(65536) })),
    says: /larger than 1048576 bytes/,
  },
};
for (const [name, { messages, says }] of Object.entries(failures)) {
  test(`fails, having sent once, on: ${name}`, async () => {
    await withAgent(answering(...messages), async ({ port, heard, conversations }) => {
      const { nothingSent, message } = await failureOf(drive(promptTo(port)));
      assert.match(message, says);
      assert.is(nothingSent, false);
      assert.is(heard.length, 2);
      assert.is(conversations.length, 1);
    });
  });
}

const acknowledgements: Record<string, { response: object; says: RegExp }> = {
  refused: {
    response: { ok: false, error: { code: "FORBIDDEN", message: "missing scope: operator.write", details: {} } },
    says: /^the agent refused chat.send: missing scope: operator.write \(FORBIDDEN\)$/,
  },
  "refused without a reason": { response: { ok: false }, says: /no reason given \(no code\)$/ },
  "of a run that failed before": {
    response: { ok: true, payload: { status: "error", summary: "no key" } },
    says: /no key$/,
  },
  odd: { response: { ok: true, payload: "yes" }, says: /with an unknown status$/ },
};
for (const [name, { response, says }] of Object.entries(acknowledgements)) {
  test(`fails on an acknowledgement that is ${name}`, async () => {
    const play = async (agent: AgentEnd) => {
      await greet(agent);
      agent.say({ type: "res", id: (await hearRequest(agent)).id, ...response });
    };
    await withAgent(play, async ({ port }) => {
      const { nothingSent, message } = await failureOf(drive(promptTo(port)));
      assert.match(message, says);
      assert.is(nothingSent, false);
    });
  });
}

test("a refused connect fails with the reason and is not tried again", async () => {
  const error = {
    code: "NOT_PAIRED",
    message: "pairing required: device is not approved yet",
    details: { requestId: "r" },
  };
  const play = async (agent: AgentEnd) => {
    agent.say(CHALLENGE);
    agent.say({ type: "res", id: (await hearRequest(agent)).id, ok: false, error });
    agent.socket.close(1008, "pairing required");
  };
  await withAgent(play, async ({ port, conversations }) => {
    const { nothingSent, message } = await failureOf(drive(promptTo(port, { token: "t" })));
    assert.is(message, "the agent refused connect: pairing required: device is not approved yet (NOT_PAIRED)");
    assert.is(nothingSent, false);
    assert.is(conversations.length, 1);
  });
});

test("a malformed challenge fails", async () => {
  for (const challenge of [
    {},
    { nonce: "", ts: 1 },
    { nonce: "a" },
    { nonce: "a", ts: -1 },
    { nonce: "a", ts: "1" },
    5,
  ]) {
    const play = async (agent: AgentEnd) =>
      agent.say({ type: "event", event: "connect.challenge", payload: challenge });
    await withAgent(play, async ({ port, heard }) => {
      assert.match((await failureOf(drive(promptTo(port)))).message, /malformed connect.challenge/);
      assert.is(heard.length, 0);
    });
  }
});

test("a server without challenges is connected to after 2 s, without a device", async () => {
  const clock = manualClock();
  let connect: ControlRequest | undefined;
  const play = async (agent: AgentEnd) => {
    connect = await hearRequest(agent);
    agent.say({ type: "res", id: connect.id, ok: true });
    agent.say({ type: "res", id: (await hearRequest(agent)).id, ok: true });
    agent.say(chat(payload.id, "final", said("old")));
  };
  await withAgent(play, async ({ port }) => {
    const reply = driverFor({ driver: "driver-b" }, { clock })(promptTo(port, { token: "t" }));
    await clock.runWhenNextIs(2000);
    assert.is((await reply).text, "old");
    assert.equal(connect?.params.auth, { token: "t" });
    assert.is(connect?.params.device, undefined);
    assert.is(clock.pending(), 0);
  });
});

const startingSigns: Record<string, { sign: (agent: AgentEnd, id: string) => void; pause: number }> = {
  "an error that says when to come back": {
    sign: (agent, id) =>
      agent.say({
        type: "res",
        id,
        ok: false,
        error: { code: "UNAVAILABLE", message: "starting", retryable: true, retryAfterMs: 700 },
      }),
    pause: 700,
  },
  "an error that asks for too long": {
    sign: (agent, id) =>
      agent.say({
        type: "res",
        id,
        ok: false,
        error: { code: "UNAVAILABLE", message: "starting", retryable: true, retryAfterMs: 99_000 },
      }),
    pause: 2000,
  },
  "a close with 1013": { sign: (agent) => agent.socket.close(1013, "gateway starting"), pause: 500 },
};
for (const [name, { sign, pause }] of Object.entries(startingSigns)) {
  test(`a server that is starting is asked again, as often as it takes: ${name}`, async () => {
    const clock = manualClock();
    let refusals = 0;
    const play = async (agent: AgentEnd) => {
      if (refusals === 3) return answering(chat(payload.id, "final", said("up")))(agent);
      refusals += 1;
      agent.say(CHALLENGE);
      sign(agent, (await hearRequest(agent)).id);
    };
    await withAgent(play, async ({ port, conversations }) => {
      const reply = driverFor({ driver: "driver-b" }, { clock })(promptTo(port));
      for (let count = 0; count < 3; count += 1) await clock.runWhenNextIs(pause);
      assert.is((await reply).text, "up");
      assert.is(conversations.length, 4);
      assert.is(clock.pending(), 0);
    });
  });
}

test("a server that goes on starting is given up after 20 tries more, and the event was not sent", async () => {
  const clock = manualClock();
  const play = async (agent: AgentEnd) => agent.socket.close(1013, "gateway starting");
  await withAgent(play, async ({ port, conversations }) => {
    const failure = failureOf(driverFor({ driver: "driver-b" }, { clock })(promptTo(port)));
    for (let count = 0; count < 20; count += 1) await clock.runWhenNextIs(500);
    const { nothingSent, message } = await failure;
    assert.is(nothingSent, true);
    assert.match(message, /1013 \(gateway starting\)/);
    assert.is(conversations.length, 21);
  });
});

const steps: Record<string, (agent: AgentEnd) => Promise<void>> = {
  "before the challenge": async ({ socket }) => socket.terminate(),
  "after connect": async (agent) => {
    agent.say(CHALLENGE);
    await hearRequest(agent);
    agent.socket.close(1011);
  },
  "after chat.send": async (agent) => {
    await greet(agent);
    await hearRequest(agent);
    agent.socket.terminate();
  },
  "in the middle of the answer": async (agent) => {
    await answering(chat(payload.id, "delta", said("half")))(agent);
    agent.socket.send(Buffer.from("{}"));
  },
};
for (const [name, play] of Object.entries(steps)) {
  test(`a connection that ends ${name} fails without another try`, async () => {
    await withAgent(play, async ({ port, conversations, heard }) => {
      const { nothingSent } = await failureOf(drive(promptTo(port)));
      assert.is(nothingSent, heard.length < 2);
      assert.is(conversations.length, 1);
    });
  });
}

test("a run that never ends fails after driverOptions.timeoutSeconds", async () => {
  const clock = manualClock();
  await withAgent(answering(), async ({ port, heard }) => {
    const options = { timeoutSeconds: 33 };
    const failure = failureOf(driverFor({ driver: "driver-b" }, { clock })(promptTo(port, { options })));
    await eventually(() => heard.length === 2);
    await clock.runWhenNextIs(33_000);
    const { nothingSent, cause } = await failure;
    assert.is(nothingSent, false);
    assert.is((cause as Error).name, "TimeoutError");
    assert.is(clock.pending(), 0);
  });
});

test.run();
