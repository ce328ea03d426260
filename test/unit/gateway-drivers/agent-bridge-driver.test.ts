// @runtimes bun node deno
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { DriverCall } from "../../../edge/gateway/drivers/driver.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { type AgentEnd, type AgentServer, withAgent } from "./agent-server.ts";
import { callTo, failureOf, payload, prompted } from "./driver-call.ts";

const test = suite("driver-a");
const drive = driverFor({ driver: "driver-a" });

const promptTo = (port: number, more: Partial<DriverCall> = {}) => callTo(port, { payload: prompted, ...more });

/** An agent that answers each prompt with these messages. */
function answering(...messages: unknown[]): (agent: AgentEnd) => Promise<void> {
  return async (agent) => {
    await agent.hear();
    agent.say({ type: "ready" });
    await agent.hear();
    for (const message of messages) agent.say(message);
  };
}

test("says init, waits for ready, prompts, and joins the output until idle", async () => {
  const order: string[] = [];
  const play = async (agent: AgentEnd) => {
    order.push(JSON.stringify(await agent.hear()));
    agent.say({ type: "ready" });
    order.push(JSON.stringify(await agent.hear()));
    for (const text of ["a", "", "b\n", "ü", "🙂"]) agent.say({ type: "output", text });
    agent.say({ type: "idle" });
  };
  await withAgent(play, async ({ port, conversations }) => {
    const reply = await drive(promptTo(port));
    assert.is(reply.text, "ab\nü🙂");
    assert.is(reply.status, 200);
    assert.is(reply.contentType, "text/plain; charset=utf-8");
    assert.is(Buffer.from(reply.body).toString(), reply.text);
    assert.equal(order, [
      JSON.stringify({ type: "init", tenantId: "Dave" }),
      JSON.stringify({ type: "prompt", text: "héllo 🙂" }),
    ]);
    const [conversation] = conversations;
    assert.is(conversation?.path, "/ws");
    assert.is(await conversation?.closed, 1000);
  });
});

test("prompts with the data as JSON where nobody wrote a text", async () => {
  for (const [data, text] of [
    [payload.data, JSON.stringify(payload.data)],
    [undefined, "null"],
    ["x", '"x"'],
  ]) {
    await withAgent(answering({ type: "idle" }), async ({ port, heard }) => {
      await drive(promptTo(port, { payload: { ...payload, data } }));
      assert.equal(heard[1], { type: "prompt", text });
    });
  }
});

test("takes driverOptions.path, and reaches a pod by its IPv6 address", async () => {
  const use = async ({ port, conversations }: AgentServer) => {
    await drive(promptTo(port, { endpoint: { host: "::1", port }, options: { path: "/agent?x=1" } }));
    assert.is(conversations[0]?.path, "/agent?x=1");
    assert.is(conversations[0]?.headers.host, `[::1]:${port}`);
  };
  await withAgent(answering({ type: "idle" }), use, { host: "::1" });
});

test("what came before the prompt, and messages of unknown types, are no part of the answer", async () => {
  const play = async (agent: AgentEnd) => {
    await agent.hear();
    for (const message of [{ type: "output", text: "banner" }, { type: "idle" }, { type: "later" }]) agent.say(message);
    agent.say({ type: "ready" });
    await agent.hear();
    for (const message of [{ type: "thinking" }, { type: "ready" }, { type: "output", text: "yes" }])
      agent.say(message);
    agent.say({ type: "idle", more: 1 });
  };
  await withAgent(play, async ({ port }) => assert.is((await drive(promptTo(port))).text, "yes"));
});

test("the first idle is the end, whatever follows it", async () => {
  const messages = [
    { type: "output", text: "one" },
    { type: "idle" },
    { type: "output", text: "two" },
    { type: "idle" },
  ];
  await withAgent(answering(...messages, { type: "error", message: "x" }), async ({ port }) => {
    assert.is((await drive(promptTo(port))).text, "one");
  });
});

test("an agent that exits with 0 has answered", async () => {
  const messages = [
    { type: "output", text: "done" },
    { type: "exit", code: 0, stderr: "warning" },
  ];
  await withAgent(answering(...messages), async ({ port }) => assert.is((await drive(promptTo(port))).text, "done"));
});

test("any text in any pieces arrives as it was", async () => {
  const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat({ max: 60 }), { maxLength: 5 }), async (whole, cuts) => {
      const places = [0, ...cuts.map((cut) => cut % whole.length).sort((a, b) => a - b), whole.length];
      // By code units, so that pairs and clusters come apart too.
      const pieces = places.slice(1).map((end, index) => ({ type: "output", text: whole.slice(places[index], end) }));
      await withAgent(answering(...pieces, { type: "idle" }), async ({ port }) => {
        assert.is((await drive(promptTo(port))).text, whole);
      });
    }),
    { numRuns: 30 },
  );
});

test("a message that comes in many frames, with pings between them, is one message", async () => {
  const play = async (agent: AgentEnd) => {
    await agent.hear();
    agent.say({ type: "ready" });
    await agent.hear();
    const bytes = Buffer.from(JSON.stringify({ type: "output", text: "grüße 🙂".repeat(20) }));
    const pongs = new Promise((resolve) => agent.socket.on("pong", resolve));
    for (let at = 0; at < bytes.length; at += 1) {
      agent.socket.send(bytes.subarray(at, at + 1), { binary: false, fin: at === bytes.length - 1 });
      if (at === 5) agent.socket.ping();
    }
    await pongs;
    agent.say({ type: "idle" });
  };
  await withAgent(play, async ({ port }) => assert.is((await drive(promptTo(port))).text, "grüße 🙂".repeat(20)));
});

const failures: Record<string, { messages: unknown[]; says: RegExp }> = {
  error: {
    messages: [
      { type: "output", text: "so" },
      { type: "error", message: "no\nmodel" },
    ],
    says: /^the agent reports an error: no model$/,
  },
  "exit with a code": {
    messages: [{ type: "exit", code: 3, stderr: `${"🙂".repeat(2000)}\n` }],
    says: /^the agent exited with code 3: (🙂){500}…$/u,
  },
  "exit by a signal": { messages: [{ type: "exit", code: null }], says: /^the agent exited with code none: $/ },
  "broken JSON": { messages: ['{"type":"output"'], says: /other than a JSON object/ },
  "JSON that is no object": { messages: ['["idle"]'], says: /other than a JSON object/ },
  "nothing at all": { messages: ["null"], says: /other than a JSON object/ },
  "an empty message": { messages: [""], says: /other than a JSON object/ },
  "a message without a type": { messages: ["{}"], says: /malformed message of type nothing$/ },
  "output that is no text": { messages: [{ type: "output", text: 5 }], says: /malformed message of type "output"$/ },
  "a message over 1 MiB": {
    messages: [{ type: "output", text: "x".repeat(1024 * 1024) }, { type: "idle" }],
    says: /lost|closed/,
  },
  "output over 1 MiB in all": {
    messages: [...Array(17).fill({ type: "output", text: "x".repeat(65536) }), { type: "idle" }],
    says: /larger than 1048576 bytes/,
  },
};
for (const [name, { messages, says }] of Object.entries(failures)) {
  test(`fails, having prompted once, on: ${name}`, async () => {
    await withAgent(answering(...messages), async ({ port, heard, conversations }) => {
      const { nothingSent, message } = await failureOf(drive(promptTo(port)));
      assert.match(message, says);
      assert.is(nothingSent, false);
      assert.is(heard.length, 2);
      assert.is(conversations.length, 1);
    });
  });
}

test("takes 1 MiB of output in all", async () => {
  const messages = [...Array(16).fill({ type: "output", text: "x".repeat(65536) }), { type: "idle" }];
  await withAgent(answering(...messages), async ({ port }) => {
    assert.is((await drive(promptTo(port))).body.length, 1024 * 1024);
  });
});

test("an agent that talks on and on, and says nothing, is cut off", async () => {
  const message = JSON.stringify({ type: "thinking", text: "x".repeat(1024 * 1000) });
  const play = async (agent: AgentEnd) => {
    await agent.hear();
    while (agent.socket.readyState === agent.socket.OPEN) {
      await new Promise((resolve) => agent.socket.send(message, resolve));
    }
  };
  await withAgent(play, async ({ port }) => {
    const { nothingSent, message } = await failureOf(drive(promptTo(port)));
    assert.match(message, /more than 256 MiB/);
    assert.is(nothingSent, true);
  });
});

const endings: Record<string, { end: (agent: AgentEnd) => void; says: RegExp }> = {
  "a binary message": { end: ({ socket }) => socket.send(Buffer.from('{"type":"idle"}')), says: /a binary message/ },
  "a close": { end: ({ socket }) => socket.close(4001, "bye"), says: /closed the connection with 4001 \(bye\)/ },
  "a normal close": { end: ({ socket }) => socket.close(1000), says: /closed the connection with 1000/ },
  "a cut": { end: ({ socket }) => socket.terminate(), says: /closed the connection with 1006|broke/ },
};
for (const [name, { end, says }] of Object.entries(endings)) {
  test(`${name} after the prompt fails, without another try`, async () => {
    const play = async (agent: AgentEnd) => {
      await agent.hear();
      agent.say({ type: "ready" });
      await agent.hear();
      agent.say({ type: "output", text: "half an" });
      end(agent);
    };
    await withAgent(play, async ({ port, conversations }) => {
      const { nothingSent, message } = await failureOf(drive(promptTo(port)));
      assert.match(message, says);
      assert.is(nothingSent, false);
      assert.is(conversations.length, 1);
    });
  });

  test(`${name} before the agent is ready fails, without another try, and the event was not sent`, async () => {
    const play = async (agent: AgentEnd) => {
      await agent.hear();
      end(agent);
    };
    await withAgent(play, async ({ port, conversations, heard }) => {
      const { nothingSent } = await failureOf(drive(promptTo(port)));
      assert.is(nothingSent, true);
      assert.is(conversations.length, 1);
      assert.equal(heard, [{ type: "init", tenantId: "Dave" }]);
    });
  });
}

test("an agent that ends or fails before it is ready has refused", async () => {
  for (const message of [
    { type: "exit", code: 0 },
    { type: "error", message: "no licence" },
  ]) {
    const play = async (agent: AgentEnd) => {
      await agent.hear();
      agent.say(message);
    };
    await withAgent(play, async ({ port }) => assert.is((await failureOf(drive(promptTo(port)))).nothingSent, false));
  }
});

test("an agent that does not get ready in 10 s fails, and the event was not sent", async () => {
  const clock = manualClock();
  await withAgent(
    async () => undefined,
    async ({ port, heard }) => {
      const failure = failureOf(driverFor({ driver: "driver-a" }, { clock })(promptTo(port)));
      await eventually(() => heard.length === 1);
      await clock.runWhenNextIs(10_000);
      const { nothingSent, cause } = await failure;
      assert.is(nothingSent, true);
      assert.is((cause as Error).name, "TimeoutError");
      assert.is(clock.pending(), 0);
    },
  );
});

for (const [seconds, expected] of [
  [undefined, 300_000],
  [60, 60_000],
] as const) {
  test(`an agent that never gets idle fails after driverOptions.timeoutSeconds: ${seconds ?? "300 when absent"}`, async () => {
    const clock = manualClock();
    await withAgent(answering({ type: "output", text: "hm" }), async ({ port, heard }) => {
      const options = seconds === undefined ? undefined : { timeoutSeconds: seconds };
      const failure = failureOf(driverFor({ driver: "driver-a" }, { clock })(promptTo(port, { options })));
      await eventually(() => heard.length === 2);
      await clock.runWhenNextIs(expected);
      const { nothingSent, cause } = await failure;
      assert.is(nothingSent, false);
      assert.is((cause as Error).name, "TimeoutError");
      assert.is(clock.pending(), 0);
    });
  });
}

test.run();
