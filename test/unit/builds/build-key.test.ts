import { test } from "uvu";
import * as assert from "uvu/assert";
import { annotation } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { buildKey, configMapDigest } from "../../../operator/builds/build-context.ts";

const workload = (image: Workload["spec"]["image"], annotations: Record<string, string> = {}): Workload => ({
  metadata: { name: "w", annotations },
  spec: { image },
});
const registry = "r.example/built";
const image = { dockerfile: "Dockerfile", args: { A: "1", B: "2" } };

test("buildKey: 64 digits that follow from what the image is made of, and from nothing else", () => {
  const key = buildKey(workload(image), { registry, context: "archive:1" });
  assert.match(key, /^[0-9a-f]{64}$/);
  assert.is(
    buildKey(workload({ args: { B: "2", A: "1" }, dockerfile: "Dockerfile" }), { registry, context: "archive:1" }),
    key,
  );
  const other: Workload = { ...workload(image), metadata: { name: "other", uid: "u", labels: { a: "b" } } };
  assert.is(buildKey({ ...other, spec: { image, resources: { vcpus: 4 } } }, { registry, context: "archive:1" }), key);
});

test("buildKey: every part of it makes another key", () => {
  const keys = [
    buildKey(workload(image), { registry, context: "archive:1" }),
    buildKey(workload(image), { registry, context: "archive:2" }),
    buildKey(workload({ ...image, dockerfile: "b/Dockerfile" }), { registry, context: "archive:1" }),
    buildKey(workload({ ...image, args: { A: "1", B: "3" } }), { registry, context: "archive:1" }),
    buildKey(workload({ ...image, args: { A: "1" } }), { registry, context: "archive:1" }),
    buildKey(workload({ dockerfile: "Dockerfile", args: { AB: "12" } }), { registry, context: "archive:1" }),
    buildKey(workload({ dockerfile: "Dockerfile" }), { registry, context: "archive:1" }),
    buildKey(workload(image), { registry: "r.example/other", context: "archive:1" }),
    buildKey(workload(image, { [annotation.rebuild]: "now" }), { registry, context: "archive:1" }),
  ];
  assert.is(new Set(keys).size, keys.length);
});

test("configMapDigest: the files alone, text or bytes, in any order", () => {
  const metadata = { name: "c" };
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const digest = configMapDigest({ metadata, data: { a: "1", b: "2" } });
  assert.is(configMapDigest({ metadata: { name: "d", uid: "u" }, data: { b: "2", a: "1" } }), digest);
  assert.is(configMapDigest({ metadata, data: { a: "1" }, binaryData: { b: base64("2") } }), digest);
  assert.is.not(configMapDigest({ metadata, data: { a: "1", b: "3" } }), digest);
  assert.is.not(configMapDigest({ metadata, data: { a: "1" } }), digest);
  assert.is.not(configMapDigest({ metadata }), digest);
});

test.run();
