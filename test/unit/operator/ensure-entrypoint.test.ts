// @runtimes node bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { configMaps, secrets, serviceAccounts } from "../../../crds/client/built-in-resources.ts";
import type { Condition } from "../../../crds/schema/condition.ts";
import type { Workload } from "../../../crds/workload.ts";
import { createBackgroundWork } from "../../../operator/background-work.ts";
import type { ImageConfig, ReadImageConfigOptions } from "../../../operator/registry/read-image-config.ts";
import { RegistryError } from "../../../operator/registry/registry-error.ts";
import {
  type EntrypointOutcome,
  ensureEntrypoint,
  forgetEntrypoint,
  holdMs,
  startProblem,
} from "../../../operator/workload/ensure-entrypoint.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("the program that a workload's image names");
const digest = `sha256:${"ab".repeat(32)}`;
const other = `sha256:${"cd".repeat(32)}`;
const config: ImageConfig = { digest, command: ["/bin/web"], args: ["-v"] };
const files = { overlayDirs: ["/data"] };

/** An operator whose registry answers what `answer` says. */
function operator(answer: (asked: ReadImageConfigOptions) => Promise<ImageConfig>, env: Record<string, string> = {}) {
  const clock = manualClock();
  const asked: ReadImageConfigOptions[] = [];
  const enqueued: string[] = [];
  const made = testOperator({
    env,
    imageReads: createBackgroundWork({ concurrency: 2, firstBackoffMs: 10_000, clock }),
    readImageConfig(options) {
      asked.push(options);
      return answer(options);
    },
    enqueueWorkload: (name) => enqueued.push(name),
  });
  const { context } = made;
  return {
    ...{ ...made, clock, asked, enqueued },
    look: (workload: Workload, image = workload.spec.image.ref) => ensureEntrypoint(workload, { image, context }),
    /** Looks, lets the background work end, and looks again. */
    async settle(workload: Workload, image = workload.spec.image.ref): Promise<EntrypointOutcome> {
      const before = enqueued.length;
      const outcome = ensureEntrypoint(workload, { image, context });
      if (context.imageLookups.size === 0) return outcome;
      while (enqueued.length === before) await new Promise((resolve) => setImmediate(resolve));
      return ensureEntrypoint(workload, { image, context });
    },
  };
}

function workload(
  spec: Partial<Workload["spec"]> = {},
  more: { generation?: number; found?: EntrypointOutcome } = {},
): Workload {
  const { generation = 1, found } = more;
  const metadata = { name: "w", namespace: "n", uid: "u", generation };
  const conditions = found?.condition === undefined ? [] : [found.condition as Condition];
  const status = found && {
    ...{ phase: "Ready" as const, observedGeneration: generation, conditions },
    ...(found.entrypoint && { entrypoint: found.entrypoint }),
  };
  return {
    ...{ kind: "TenancyWorkload", metadata, spec: { image: { ref: "r.example/web:1" }, filesystem: files, ...spec } },
    ...(status && { status }),
  };
}

const unreachable = () => Promise.reject(new RegistryError("RegistryUnreachable", "r.example answers 503"));

test("is read once for a tag and a generation of the spec, and once for a digest", async () => {
  const { look, settle, asked } = operator(async () => config);
  const first = look(workload());
  assert.is(first.entrypoint, undefined);
  assert.equal([first.condition?.status, first.condition?.reason], ["Unknown", "ReadingImage"]);
  const found = await settle(workload());
  const entrypoint = { image: "r.example/web:1", digest, command: ["/bin/web"], args: ["-v"], observedGeneration: 1 };
  assert.equal(found.entrypoint, entrypoint);
  assert.equal(found.condition, {
    ...{ type: "EntrypointKnown", status: "True", reason: "ImageRead" },
    message: `It was read from the image ${digest}`,
  });
  assert.equal(look(workload({}, { found })), found);
  assert.is(asked.length, 1);

  // A tag may lead elsewhere by then. Until that is known, what was found stays.
  const next = workload({}, { generation: 2, found });
  assert.equal(look(next).entrypoint, entrypoint);
  assert.equal((await settle(next)).entrypoint, { ...entrypoint, observedGeneration: 2 });
  assert.is(asked.length, 2);

  const pinned = { image: { ref: `r.example/web@${digest}` } };
  const known = await settle(workload(pinned));
  assert.is(known.entrypoint?.image, pinned.image.ref);
  assert.equal(look(workload(pinned, { generation: 9, found: known })).entrypoint, known.entrypoint);
  assert.is(asked.length, 3);
});

test("is not of another image", async () => {
  const { look, settle } = operator(async () => config);
  const found = await settle(workload());
  const { entrypoint, condition } = look(workload({ image: { ref: "r.example/other:1" } }, { generation: 2, found }));
  assert.equal([entrypoint, condition?.status], [undefined, "Unknown"]);
});

test("is not read where pods do not need it", () => {
  const { look, asked, api } = operator(async () => config);
  for (const spec of [
    { filesystem: {} },
    { filesystem: { overlayDirs: [] } },
    { entrypoint: { cmd: "/bin/own" } },
    { image: { dockerfile: "Dockerfile" } },
  ]) {
    assert.equal(look(workload(spec)), { entrypoint: undefined, condition: undefined }, JSON.stringify(spec));
  }
  assert.equal([asked.length, api.calls.length], [0, 0]);
});

test("a program that starts with its claim has to be known: a workload waits for it, or says what to do", async () => {
  const onClaim = { filesystem: {}, entrypoint: { start: "OnClaim" as const } };
  const { look, settle } = operator(unreachable);
  const reading = look(workload(onClaim));
  assert.ok(holdMs(reading, workload(onClaim, { found: reading }), Number.MAX_SAFE_INTEGER) > 0);
  assert.is(startProblem(workload(onClaim), reading), undefined);
  const failed = await settle(workload(onClaim));
  const problem = startProblem(workload(onClaim), failed);
  assert.is(problem?.reason, "RegistryUnreachable");
  assert.match(problem?.message ?? "", /^spec.entrypoint.start is OnClaim: .*set spec.entrypoint.cmd/);
  assert.is(startProblem(workload({ entrypoint: {} }), failed), undefined);
  const none = await operator(async () => ({ ...config, command: [], args: [] })).settle(workload(onClaim));
  assert.is(startProblem(workload(onClaim), none)?.reason, "NoProgram");
  const named = { ...onClaim, entrypoint: { ...onClaim.entrypoint, args: ["run"] } };
  const bare = await operator(async () => ({ ...config, command: [], args: [] })).settle(workload(named));
  assert.equal([startProblem(workload(named), bare), bare.condition?.status], [undefined, "True"]);
  const variable = await operator(async () => ({ ...config, command: ["a=b"], args: [] })).settle(workload(onClaim));
  assert.match(startProblem(workload(onClaim), variable)?.message ?? "", /"a=b" has a "=": set entrypoint\.cmd/);
});

test("a registry that fails is asked again, and what is said of it stays until then", async () => {
  let answer: () => Promise<ImageConfig> = unreachable;
  const { look, settle, asked, clock } = operator(() => answer());
  const failed = await settle(workload());
  assert.is(failed.entrypoint, undefined);
  assert.equal(failed.condition, {
    ...{ type: "EntrypointKnown", status: "False", reason: "RegistryUnreachable" },
    message:
      "The image's own command is not known: r.example answers 503; set spec.entrypoint.cmd, or wait: it is tried again",
  });
  const { requeueAfterMs = 0 } = failed;
  assert.ok(requeueAfterMs > 0 && requeueAfterMs <= 10_000);
  const shown = workload({}, { found: failed });
  look(shown);
  assert.is(asked.length, 1);
  await clock.pass(requeueAfterMs);
  answer = async () => config;
  // While it is asked again.
  assert.equal(look(shown).condition, failed.condition);
  assert.is((await settle(shown)).condition?.status, "True");
  assert.is(asked.length, 2);
});

test("what was found stays where a later look fails", async () => {
  let answer: () => Promise<ImageConfig> = async () => config;
  const { settle } = operator(() => answer());
  const found = await settle(workload());
  answer = unreachable;
  const later = await settle(workload({}, { generation: 2, found }));
  assert.equal(later.entrypoint, found.entrypoint);
  assert.equal(later.condition, {
    ...{ type: "EntrypointKnown", status: "True", reason: "RegistryUnreachable" },
    message: `It was read from the image ${digest}; the image now: r.example answers 503`,
  });
  assert.ok((later.requeueAfterMs ?? 0) > 0);
});

test("an image without a program says so", async () => {
  const { settle } = operator(async () => ({ digest, command: [], args: [] }));
  const { entrypoint, condition } = await settle(workload());
  assert.equal([entrypoint?.command, entrypoint?.args], [[], []]);
  assert.equal([condition?.status, condition?.reason], ["False", "NoProgram"]);
  assert.match(condition?.message ?? "", /set spec\.entrypoint\.cmd/);
});

test("a look that no one needs any more ends", async () => {
  const signals: AbortSignal[] = [];
  const { look, context } = operator(({ signal }) => {
    signals.push(signal);
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const begun = async (count: number) => {
    while (signals.length < count) await new Promise((resolve) => setImmediate(resolve));
  };
  look(workload());
  await begun(1);
  look(workload({}, { generation: 2 }));
  await begun(2);
  assert.equal([signals[0]?.aborted, signals[1]?.aborted], [true, false]);
  look(workload({ entrypoint: { cmd: "/a" } }, { generation: 3 }));
  assert.ok(signals[1]?.aborted);
  look(workload());
  await begun(3);
  forgetEntrypoint(workload(), context);
  assert.ok(signals[2]?.aborted);
  assert.is(context.imageLookups.size, 0);
});

const dockerConfig = (name: string) => ({
  metadata: { name, namespace: "n" },
  type: "kubernetes.io/dockerconfigjson",
  data: { ".dockerconfigjson": Buffer.from(`of ${name}`).toString("base64") },
});

test("is read with the Secrets that the pods pull with, and the registry settings of builds", async () => {
  const env = { TENANCY_REGISTRY: "r.example/built", TENANCY_REGISTRY_PULL_SECRET: "built" };
  const { settle, asked, api } = operator(async () => config, env);
  for (const name of ["one", "two", "built"]) api.add(secrets, dockerConfig(name));
  api.add(serviceAccounts, {
    metadata: { name: "default", namespace: "n" },
    imagePullSecrets: [{ name: "two" }, { name: "gone" }, { name: "one" }],
  });
  api.add(configMaps, {
    metadata: { name: "tenancy-buildkitd", namespace: "tenancy-builds" },
    data: { "buildkitd.toml": '[registry."r.example"]\n  http = true\n' },
  });
  await settle(workload());
  assert.equal(asked[0]?.logins, ["of two", "of one"]);
  assert.ok(asked[0]?.settings?.get("r.example")?.isPlain);
  await settle(workload({ image: { dockerfile: "Dockerfile" } }), `r.example/built/w@${other}`);
  assert.equal([asked[1]?.ref, asked[1]?.logins], [`r.example/built/w@${other}`, ["of built"]]);
});

test("a Secret that the operator may not read is named where the registry asks for a login", async () => {
  let reason: "RegistryUnauthorized" | "ImageNotFound" = "RegistryUnauthorized";
  const { settle, asked, api, clock } = operator(() => Promise.reject(new RegistryError(reason, "r.example refuses")));
  api.add(serviceAccounts, { metadata: { name: "default", namespace: "n" }, imagePullSecrets: [{ name: "one" }] });
  api.onEvery("get", new ApiError("no", { status: 403, reason: "Forbidden" }), secrets);
  const { condition, requeueAfterMs = 0 } = await settle(workload());
  assert.is(condition?.reason, "RegistryUnauthorized");
  assert.match(condition?.message ?? "", /r\.example refuses; the operator may not read the Secret one; set spec/);
  assert.equal(asked[0]?.logins, []);
  reason = "ImageNotFound";
  await clock.pass(requeueAfterMs);
  assert.not.match((await settle(workload())).condition?.message ?? "", /Secret/);
});

test.run();
