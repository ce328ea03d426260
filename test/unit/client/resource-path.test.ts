// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { leases, nodes, pods } from "../../../crds/client/built-in-resources.ts";
import { objectPath, resourcePath } from "../../../crds/resource.ts";

test("resourcePath knows the core group, named groups, namespaces and what has none", () => {
  assert.is(resourcePath(pods, {}), "/api/v1/pods");
  assert.is(resourcePath(pods, { namespace: "a" }), "/api/v1/namespaces/a/pods");
  assert.is(resourcePath(leases, { namespace: "a", name: "b" }), "/apis/coordination.k8s.io/v1/namespaces/a/leases/b");
  assert.is(resourcePath(nodes, { namespace: "a", name: "n", subresource: "status" }), "/api/v1/nodes/n/status");
});

test("resourcePath leaves out what is undefined and encodes the rest", () => {
  const query = { labelSelector: "a=b,c in (d)", limit: undefined, watch: true, timeoutSeconds: 5 };
  assert.is(
    resourcePath(pods, { namespace: "a", query }),
    "/api/v1/namespaces/a/pods?labelSelector=a%3Db%2Cc%20in%20(d)&watch=true&timeoutSeconds=5",
  );
});

test("resourcePath lets no name reach another path", () => {
  assert.is(resourcePath(pods, { namespace: "a", name: "../b?c#d" }), "/api/v1/namespaces/a/pods/..%2Fb%3Fc%23d");
  for (const name of ["", ".", ".."])
    assert.throws(() => resourcePath(pods, { namespace: "a", name }), /is not a valid name/);
});

test("objectPath never gives the path of a collection", () => {
  assert.throws(() => objectPath(pods, { namespace: "a", name: "" }), "Cannot address a Pod: it has no name");
  assert.throws(() => objectPath(pods, { name: "b" }), "Cannot address the Pod b: it has no namespace");
  assert.is(objectPath(nodes, { name: "b" }), "/api/v1/nodes/b");
});

test.run();
