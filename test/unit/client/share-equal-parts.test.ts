// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { shareEqualParts } from "../../../crds/client/watch/share-equal-parts.ts";
import type { KubernetesObject, Pod } from "../../../crds/kubernetes.ts";

function pod(name: string, image: string): Pod {
  const owner = { apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyPool", name: "pool", uid: "u" };
  return {
    metadata: { name, ownerReferences: [owner] },
    spec: {
      nodeName: `node-of-${name}`,
      containers: [{ name: "main", image }],
      volumes: [{ name: "data", emptyDir: {} }],
    },
  };
}

test("shareEqualParts makes equal parts one, and changes nothing", () => {
  const share = shareEqualParts<Pod>();
  const first = share(pod("x", "one"));
  const second = share(pod("y", "one"));
  const third = share(pod("z", "two"));
  assert.is(second.spec.containers, first.spec.containers);
  assert.is(second.metadata.ownerReferences, first.metadata.ownerReferences);
  assert.is(third.spec.volumes, first.spec.volumes);
  assert.is.not(third.spec.containers, first.spec.containers);
  for (const [shared, name, image] of [
    [first, "x", "one"],
    [second, "y", "one"],
    [third, "z", "two"],
  ] as const)
    assert.equal(shared, pod(name, image));
});

test("shareEqualParts remembers what is in use among any number of parts that come once", () => {
  const share = shareEqualParts<Pod>();
  const { containers } = share(pod("x", "used")).spec;
  for (let index = 0; index < 5000; index++) {
    share(pod("x", `once-${index}`));
    assert.is(share(pod("x", "used")).spec.containers, containers);
  }
});

test("shareEqualParts takes objects without a spec", () => {
  const bare: KubernetesObject = { metadata: { name: "x" } };
  assert.equal(shareEqualParts()({ ...bare }), bare);
});

test.run();
