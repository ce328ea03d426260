// @runtimes bun node deno
// @limit 240
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { deviceIdentityOf } from "../../../edge/gateway/drivers/agent-frame.ts";
import type { DriverCall } from "../../../edge/gateway/drivers/driver.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { eventually } from "../../eventually.ts";
import { confirm, failureOf, payload } from "./driver-call.ts";
import { type FakeModel, startFakeModel } from "./fake-model.ts";
import { type OpenClaw, startOpenClaw } from "./start-openclaw.ts";

const folder = process.env.TENANCY_TEST_OPENCLAW ?? "";

const test = suite("driver-b with the real OpenClaw");
const token = "a-token-for-tests";
const drive = driverFor({ driver: "driver-b" });

test("the device that has to be approved once follows from the token", () => {
  assert.is(deviceIdentityOf(token).id, "fd4960b1d2a302527766cb242e5783bce392a3dd57658e1d2f90c5d8bb693880");
});

if (folder === "") {
  test.skip("needs OpenClaw: TENANCY_TEST_OPENCLAW names the folder where it and a Node for it are installed");
} else {
  let model: FakeModel;
  let gateway: OpenClaw;

  const ask = (id: string, more: Partial<DriverCall> = {}) =>
    drive({
      payload: { ...payload, id, text: `#ping ${id}#` },
      endpoint: { host: "127.0.0.1", port: gateway.port },
      options: undefined,
      signal: new AbortController().signal,
      confirm,
      token,
      ...more,
    });
  const timesAsked = (id: string) => model.questions.filter((question) => question === `ping ${id}`).length;

  test.before(async () => {
    model = await startFakeModel();
    gateway = await startOpenClaw({ folder, auth: { mode: "token", token }, modelUrl: model.url });
  });
  test.after(async () => {
    await gateway.stop();
    await model.close();
  });

  test("an event that meets it while it starts is answered", async () => {
    await gateway.listening();
    assert.is((await ask("early")).text, "pong early");
    await gateway.ready();
  });

  test("an event is answered, and its repetition gets the same answer without another run", async () => {
    assert.is((await ask("evt-1")).text, "pong evt-1");
    assert.is((await ask("evt-1")).text, "pong evt-1");
    assert.is(timesAsked("evt-1"), 1);
  });

  test("an event that was given up in the middle is answered by the same run when it comes again", async () => {
    model.mode = "hold";
    const controller = new AbortController();
    const first = ask("evt-2", { signal: controller.signal }).catch((error: unknown) => error);
    await eventually(() => timesAsked("evt-2") === 1);
    const reason = new Error("stop");
    controller.abort(reason);
    assert.is(await first, reason);
    const second = ask("evt-2");
    model.mode = "answer";
    assert.is((await second).text, "pong evt-2");
    assert.is(timesAsked("evt-2"), 1);
  });

  test("events that come together are each answered", async () => {
    const ids = ["a", "b", "c"].map((letter) => `many-${letter}`);
    const replies = await Promise.all(
      ids.map((id) => ask(id, { payload: { ...payload, id, tenantId: id, text: `#ping ${id}#` } })),
    );
    assert.equal(
      replies.map(({ text }) => text),
      ids.map((id) => `pong ${id}`),
    );
  });

  test("a wrong token is refused", async () => {
    const { message, nothingSent } = await failureOf(ask("evt-3", { token: "wrong" }));
    assert.match(message, /^the agent refused connect: .*token mismatch/);
    assert.is(nothingSent, false);
  });

  test("a model that fails is a run that failed", async () => {
    model.mode = "refuse";
    const { message } = await failureOf(ask("evt-4"));
    model.mode = "answer";
    assert.match(message, /^the agent's run failed: /);
  });

  test("without a token, one that trusts the gateway as its proxy answers, as docs/how-to/run-a-chat-bot.md has it", async () => {
    const auth = {
      mode: "trusted-proxy",
      trustedProxy: { userHeader: "x-forwarded-user", allowLoopback: true },
      identityScopes: { tenancy: ["operator.read", "operator.write"] },
    };
    const trusting = await startOpenClaw({ folder, auth, modelUrl: model.url });
    try {
      await trusting.ready();
      const { text } = await ask("evt-5", { token: undefined, endpoint: { host: "127.0.0.1", port: trusting.port } });
      assert.is(text, "pong evt-5");
    } finally {
      await trusting.stop();
    }
  });
}

test.run();
