import { suite } from "uvu";
import * as assert from "uvu/assert";
import { tracingConfig } from "../../../crds/tracing/tracing-config.ts";

const test = suite("tracing configuration");
const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };
const read = (env: Record<string, string>) => tracingConfig(env, { service: "edge" });

test("it is off without an endpoint, and where it is switched off", () => {
  for (const env of [
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: "" },
    // Nothing is read then, so nothing can be wrong.
    { OTEL_TRACES_SAMPLER: "sometimes" },
    { ...ENDPOINT, OTEL_SDK_DISABLED: "True" },
    { ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" },
  ])
    assert.is(read(env), undefined, JSON.stringify(env));
  assert.ok(read({ ...ENDPOINT, OTEL_SDK_DISABLED: "no", OTEL_TRACES_EXPORTER: "otlp" }));
});

test("an endpoint is a base, and one for traces is taken as it is", () => {
  const urlOf = (env: Record<string, string>) => read(env)?.url;
  assert.is(urlOf(ENDPOINT), "http://collector:4318/v1/traces");
  assert.is(urlOf({ OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/otlp/" }), "https://c/otlp/v1/traces");
  assert.is(urlOf({ OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/otlp?k=1" }), "https://c/otlp/v1/traces?k=1");
  assert.is(urlOf({ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://t:1/in" }), "http://t:1/in");
  assert.is(urlOf({ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "" }), "http://collector:4318/v1/traces");
});

test("headers, the service's name and what describes it", () => {
  const full = read({
    ...ENDPOINT,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20a%2Cb , X-Scope=1,Content-Type=text/plain",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=other,deployment.environment.name=prod",
    OTEL_BSP_SCHEDULE_DELAY: "100",
  });
  assert.equal(full?.headers, { authorization: "Bearer a,b", "x-scope": "1", "content-type": "application/json" });
  assert.equal(full?.resource, { "service.name": "other", "deployment.environment.name": "prod" });
  assert.is(full?.delayMs, 100);
  const own = { OTEL_SERVICE_NAME: "mine", OTEL_RESOURCE_ATTRIBUTES: "service.name=other" };
  assert.equal(read({ ...ENDPOINT, ...own })?.resource, { "service.name": "mine" });
  assert.equal(read(ENDPOINT)?.resource, { "service.name": "edge" });
  const both = { OTEL_EXPORTER_OTLP_HEADERS: "a=1", OTEL_EXPORTER_OTLP_TRACES_HEADERS: "b=2" };
  assert.equal(read({ ...ENDPOINT, ...both })?.headers, { b: "2", "content-type": "application/json" });
});

test("samplers decide by their parent, by the trace, or not at all", () => {
  const low = `${"0".repeat(31)}1`;
  const high = "f".repeat(32);
  const parent = (sampled: boolean) => ({ traceId: low, spanId: "1".repeat(16), sampled });
  const table: [sampler: string, arg: string, root: [boolean, boolean], ofSampled: boolean, ofUnsampled: boolean][] = [
    ["always_on", "", [true, true], true, true],
    ["always_off", "", [false, false], false, false],
    ["traceidratio", "0.5", [false, true], false, false],
    ["parentbased_always_on", "", [true, true], true, false],
    ["parentbased_always_off", "", [false, false], true, false],
    ["parentbased_traceidratio", "0.5", [false, true], true, false],
    ["traceidratio", "0", [false, false], false, false],
    ["traceidratio", "1.0", [true, true], true, true],
    ["", "", [true, true], true, false],
  ];
  for (const [OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG, root, ofSampled, ofUnsampled] of table) {
    const sampler = read({ ...ENDPOINT, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG })?.sampler;
    const decided = [sampler?.(undefined, low), sampler?.(undefined, high)];
    assert.equal(decided, root, `${OTEL_TRACES_SAMPLER} ${OTEL_TRACES_SAMPLER_ARG}`);
    assert.is(sampler?.(parent(true), low), ofSampled, OTEL_TRACES_SAMPLER);
    assert.is(sampler?.(parent(false), low), ofUnsampled, OTEL_TRACES_SAMPLER);
  }
});

test("each wrong value is named, and secrets are not shown", () => {
  const wrong: [env: Record<string, string>, says: RegExp][] = [
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }, /OTEL_EXPORTER_OTLP_ENDPOINT must be an address of http/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://u:s3cret@c" }, /without a user and a password/],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "grpc://c/?k=s3cret" }, /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "s3cret" }, /OTEL_EXPORTER_OTLP_HEADERS must be pairs/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "a=s3cret%" }, /OTEL_EXPORTER_OTLP_HEADERS must be pairs/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "a=s3cret%0a" }, /OTEL_EXPORTER_OTLP_HEADERS must be pairs/],
    [{ OTEL_EXPORTER_OTLP_HEADERS: "a b=s3cret" }, /OTEL_EXPORTER_OTLP_HEADERS must be pairs/],
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, /OTEL_EXPORTER_OTLP_PROTOCOL must be http\/json.*, not "grpc"/],
    [{ OTEL_TRACES_EXPORTER: "zipkin" }, /OTEL_TRACES_EXPORTER must be otlp or none/],
    [{ OTEL_RESOURCE_ATTRIBUTES: "a" }, /OTEL_RESOURCE_ATTRIBUTES must be pairs/],
    [{ OTEL_TRACES_SAMPLER: "sometimes" }, /OTEL_TRACES_SAMPLER must be one of always_on, .*, not "sometimes"/],
    [{ OTEL_TRACES_SAMPLER_ARG: "1.1" }, /OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1/],
    [{ OTEL_BSP_SCHEDULE_DELAY: "5s" }, /OTEL_BSP_SCHEDULE_DELAY must be a whole number/],
  ];
  for (const [env, says] of wrong) {
    assert.throws(
      () => read({ ...ENDPOINT, ...env }),
      (error: Error) => says.test(error.message) && !error.message.includes("s3cret"),
      JSON.stringify(env),
    );
  }
});

test.run();
