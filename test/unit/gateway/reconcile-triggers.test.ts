// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Log } from "../../../crds/log.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { AdapterContext } from "../../../edge/gateway/adapter.ts";
import { type AdapterType, reconcileTriggers } from "../../../edge/gateway/triggers/reconcile-triggers.ts";
import { SecretError } from "../../../edge/gateway/triggers/secret-reader.ts";
import { manualClock, turns } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("reconcileTriggers");

interface Started {
  name: string;
  path: string | undefined;
  context: AdapterContext;
  finish(error?: Error): void;
  changeSecret(): void;
  isClosed: boolean;
}

/** Reconciles triggers whose adapters a test ends by hand: webhooks overlap, messengers follow each other. */
function testEnvironment() {
  const clock = manualClock();
  const triggers = new Map<string, Trigger>();
  const started: Started[] = [];
  const shown: string[] = [];
  const failures = new Map<string, Error>();
  const extras = new Map<AdapterContext, { changeSecret: () => void; close: () => void }>();
  const closed = new Set<AdapterContext>();
  const type = (replacement: AdapterType["replacement"]): AdapterType => ({
    replacement,
    pulls: replacement === "succession",
    async start(context) {
      const { name } = context.trigger.metadata;
      await turns();
      const failure = failures.get(name);
      if (failure !== undefined) throw failure;
      let finish: (error?: Error) => void = () => undefined;
      const done = new Promise<void>((resolve, reject) => {
        finish = (error) => (error === undefined ? resolve() : reject(error));
      });
      started.push({
        name,
        path: context.trigger.spec.config.path,
        context,
        finish,
        changeSecret: () => extras.get(context)?.changeSecret(),
        get isClosed() {
          return closed.has(context);
        },
      });
      return { done };
    },
  });
  const secretChanges: (() => void)[] = [];
  const logged: string[] = [];
  const note: Log["warn"] = (fields, message) => {
    const { error } = fields as { error?: { message: string; stack?: string } };
    logged.push(`${message}: ${error?.message}${error?.stack === undefined ? "" : " with its stack"}`);
  };
  const log: Log = { ...silentLog, warn: note, error: note };
  const reconciler = reconcileTriggers({
    find: (name) => triggers.get(name),
    problemOf({ spec }) {
      if (spec.config.path === "/throws") throw new TypeError("cannot read the path");
      return spec.config.path === "/bad" ? "the path is bad" : undefined;
    },
    types: { webhook: type("overlap"), cron: type("overlap"), messenger: type("succession") },
    open({ trigger, signal, onSecretChange, report }) {
      const context = { trigger, signal, report, log: silentLog, clock } as unknown as AdapterContext;
      extras.set(context, { changeSecret: onSecretChange, close: () => undefined });
      secretChanges.push(onSecretChange);
      return { context, close: () => void closed.add(context) };
    },
    statusOf: (name) => ({
      write: (_, problem) => void shown.push(`${name}: ${problem ?? "Active"}`),
      recheck: () => undefined,
    }),
    clock,
    log,
  });
  const put = (name: string, path: string, kind: "webhook" | "messenger" = "webhook", uid = name) => {
    triggers.set(name, {
      metadata: { name, uid, namespace: "tenancy" },
      spec: { type: kind, workloadRef: "app", tenant: { static: "a" }, config: { path } },
    });
    reconciler.enqueue(name);
  };
  const remove = (name: string) => {
    triggers.delete(name);
    reconciler.enqueue(name);
  };
  const served = () =>
    started.filter(({ context }) => !context.signal.aborted).map(({ name, path }) => `${name}${path}`);
  return { clock, reconciler, started, shown, failures, secretChanges, logged, put, remove, served };
}

test("a trigger that cannot even be judged shows why, and stops no other", async () => {
  const { reconciler, put, served, shown } = testEnvironment();
  put("broken", "/throws");
  put("b", "/2");
  await reconciler.idle();
  assert.equal(served(), ["b/2"]);
  assert.equal(shown, ["broken: cannot read the path", "b: Active"]);
  put("broken", "/1");
  await reconciler.idle();
  assert.equal(served(), ["b/2", "broken/1"]);
});

test("triggers are served, edited and stopped without touching the others", async () => {
  const { reconciler, put, remove, served, started, shown } = testEnvironment();
  put("a", "/1");
  put("b", "/1");
  await reconciler.idle();
  assert.equal(served(), ["a/1", "b/1"]);
  put("a", "/2");
  await reconciler.idle();
  assert.equal(served(), ["b/1", "a/2"]);
  remove("b");
  await reconciler.idle();
  assert.equal(served(), ["a/2"]);
  assert.is(started.length, 3);
  assert.equal(shown, ["a: Active", "b: Active", "a: Active"]);
});

test("a look without a change does nothing, and many at once come to the last state", async () => {
  const { reconciler, put, served, started } = testEnvironment();
  put("a", "/1");
  await reconciler.idle();
  reconciler.enqueue("a");
  reconciler.enqueue("a");
  await reconciler.idle();
  assert.is(started.length, 1);
  for (let count = 2; count < 20; count += 1) put("a", `/${count}`);
  await reconciler.idle();
  assert.equal(served(), ["a/19"]);
  assert.ok(started.length <= 3, String(started.length));
});

test("an edited webhook's new adapter serves before the old one stops", async () => {
  const { reconciler, put, started } = testEnvironment();
  put("a", "/1");
  await reconciler.idle();
  const [old] = started;
  let startedBefore = 0;
  old?.context.signal.addEventListener("abort", () => {
    startedBefore = started.length;
  });
  put("a", "/2");
  await reconciler.idle();
  assert.is(startedBefore, 2);
  assert.not(old?.isClosed, "what it reads stays until it has ended");
  old?.finish();
  await turns();
  assert.ok(old?.isClosed);
});

test("an edited messenger's new adapter starts only when nothing of the old one runs", async () => {
  const { reconciler, put, started } = testEnvironment();
  put("a", "/1", "messenger");
  await reconciler.idle();
  put("a", "/2", "messenger");
  await turns();
  await turns();
  assert.ok(started[0]?.context.signal.aborted);
  assert.is(started.length, 1);
  started[0]?.finish();
  await reconciler.idle();
  assert.is(started.length, 2);
});

test("another trigger of the same name is another trigger", async () => {
  const { reconciler, put, served, started } = testEnvironment();
  put("a", "/1", "webhook", "first");
  await reconciler.idle();
  put("a", "/1", "webhook", "second");
  await reconciler.idle();
  assert.is(started.length, 2);
  assert.equal(served(), ["a/1"]);
});

test("a trigger with a problem shows it, is not served, and harms no other", async () => {
  const { reconciler, put, served, shown } = testEnvironment();
  put("a", "/1");
  put("b", "/bad");
  await reconciler.idle();
  assert.equal(served(), ["a/1"]);
  put("a", "/bad");
  await reconciler.idle();
  assert.equal(served(), []);
  put("b", "/2");
  await reconciler.idle();
  assert.equal(served(), ["b/2"]);
  assert.equal(shown, ["b: the path is bad", "a: Active", "a: the path is bad", "b: Active"]);
});

test("what cannot be started is tried again, later and later, and at once when its Secret changes", async () => {
  const { clock, reconciler, put, served, shown, failures, secretChanges, started } = testEnvironment();
  failures.set("a", new Error("Secret s does not exist"));
  put("a", "/1");
  put("b", "/1");
  await reconciler.idle();
  assert.equal(served(), ["b/1"]);
  assert.equal(shown, ["a: Secret s does not exist", "b: Active"]);
  const before = secretChanges.length;
  await clock.pass(10 * 60_000);
  const tries = secretChanges.length - before;
  assert.ok(tries >= 5 && tries <= 30, String(tries));
  failures.clear();
  secretChanges.at(-1)?.();
  await reconciler.idle();
  assert.equal(served(), ["b/1", "a/1"]);
  assert.is(clock.pending(), 0);
  assert.is(started.length, 2);
});

test("a missing Secret is one line of the log without a stack, until it is another problem or is over", async () => {
  const { clock, reconciler, put, failures, secretChanges, logged } = testEnvironment();
  failures.set("a", new SecretError("Secret s does not exist"));
  put("a", "/1");
  await reconciler.idle();
  await clock.pass(35 * 60_000);
  const missing = "trigger adapter not started: Secret s does not exist";
  assert.equal(logged, [missing]);
  failures.set("a", new SecretError("Secret s has no value"));
  await clock.pass(2 * 60_000);
  assert.equal(logged, [missing, "trigger adapter not started: Secret s has no value"]);
  failures.clear();
  secretChanges.at(-1)?.();
  await reconciler.idle();
  failures.set("a", new SecretError("Secret s does not exist"));
  put("a", "/2");
  await reconciler.idle();
  assert.equal(logged.slice(2), [missing]);
});

test("an adapter that fails again and again with the same is one line of the log, until it has been healthy", async () => {
  const { clock, reconciler, put, started, logged } = testEnvironment();
  put("a", "/1");
  await reconciler.idle();
  const fail = async () => {
    started.at(-1)?.finish(new SecretError("401 Unauthorized"));
    await turns();
    await clock.pass(60_000);
    await reconciler.idle();
  };
  for (let times = 0; times < 3; times += 1) await fail();
  assert.equal(logged, ["trigger adapter failed: 401 Unauthorized"]);
  await clock.pass(10 * 60_000);
  await fail();
  await fail();
  assert.is(logged.length, 2);
});

test("an edit whose new adapter cannot be started ends the old one, which nobody wants any longer", async () => {
  const { reconciler, put, served, failures, shown } = testEnvironment();
  put("a", "/1");
  await reconciler.idle();
  failures.set("a", new Error("no"));
  put("a", "/2");
  await reconciler.idle();
  assert.equal(served(), []);
  assert.is(shown.at(-1), "a: no");
});

test("an adapter that ends by itself is started again, and says so meanwhile", async () => {
  const { clock, reconciler, put, served, started, shown } = testEnvironment();
  put("a", "/1");
  await reconciler.idle();
  started[0]?.finish(new Error("it broke"));
  await turns();
  assert.equal(served(), []);
  assert.is(shown.at(-1), "a: the adapter stopped and is being restarted: it broke");
  await clock.pass(2000);
  await reconciler.idle();
  assert.equal(served(), ["a/1"]);
  assert.is(shown.at(-1), "a: Active");
});

test("what an adapter reports is shown, until it is stopped", async () => {
  const { reconciler, put, remove, started, shown } = testEnvironment();
  put("a", "/1");
  await reconciler.idle();
  started[0]?.context.report("the bot is blocked");
  started[0]?.context.report(undefined);
  remove("a");
  await reconciler.idle();
  started[0]?.context.report("too late");
  assert.equal(shown, ["a: Active", "a: the bot is blocked", "a: Active"]);
});

test("a stop waits for what it stops, and for nothing else", async () => {
  const { reconciler, put, served, started } = testEnvironment();
  put("hook", "/1");
  put("bot", "/1", "messenger");
  await reconciler.idle();
  let stopped = false;
  const stopping = reconciler.stop("pulling").then(() => {
    stopped = true;
  });
  await turns();
  assert.equal(served(), ["hook/1"]);
  assert.not(stopped);
  started.find(({ name }) => name === "bot")?.finish();
  await stopping;
  put("later", "/1", "messenger");
  put("hook", "/2");
  await reconciler.idle();
  assert.equal(served(), ["hook/2"]);
});

test.run();
