// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type SecretPolicy, type SecretUse, secretRefusal } from "../../../crds/secret-refusal.ts";

const test = suite("secretRefusal");

function isRefused(
  options: { name?: string; type?: string; labels?: Record<string, string> },
  [policy, use]: [SecretPolicy, SecretUse] = ["any", "workload"],
): boolean {
  const { name = "vault", type, labels } = options;
  const metadata = { name, ...(labels !== undefined && { labels }) };
  const refusal = secretRefusal({ name, secret: { metadata, ...(type !== undefined && { type }) }, use, policy });
  if (refusal !== undefined) assert.match(refusal, `Secret ${name} `);
  return refusal !== undefined;
}

test("what the service or the cluster lives by is refused, whatever it is labelled", () => {
  const labelled = { "tenancy.dev/use": "workload.trigger" };
  for (const labels of [{}, labelled]) {
    for (const policy of ["any", "labelled"] as const) {
      for (const use of ["workload", "trigger"] as const) {
        const refused = (options: Parameters<typeof isRefused>[0]) =>
          assert.ok(isRefused({ labels, ...options }, [policy, use]), JSON.stringify(options));
        refused({ name: "tenancy-api-key" });
        refused({ name: "tenancy-proxy-keys" });
        refused({ name: "tenancy-snapshots" });
        refused({ name: "tenancy-object-storage" });
        refused({ name: "tenancy-snapshots-names" });
        refused({ name: "tenancy-object-storage-names" });
        refused({ name: "tenancy-sink" });
        refused({ labels: { ...labels, "tenancy.dev/managed": "true" } });
        for (const type of [
          "kubernetes.io/service-account-token",
          "bootstrap.kubernetes.io/token",
          "kubernetes.io/dockerconfigjson",
          "kubernetes.io/dockercfg",
          "kubernetes.io/tls",
          "kubernetes.io/ssh-auth",
          "helm.sh/release.v1",
          "tenancy.dev/claim",
          "tenancy.dev/key",
        ]) {
          refused({ type });
        }
      }
    }
  }
  assert.ok(secretRefusal({ name: "tenancy-api-key", secret: undefined, use: "trigger", policy: "any" }));
  assert.is(secretRefusal({ name: "vault", secret: undefined, use: "trigger", policy: "labelled" }), undefined);
});

test("a person's own Secret is taken as it is, unless it is labelled for another use", () => {
  for (const type of [undefined, "Opaque", "kubernetes.io/basic-auth", "example.com/token"]) {
    assert.not.ok(isRefused(type === undefined ? {} : { type }), type);
  }
  const uses = { workload: false, "workload.trigger": false, "trigger.workload": false, trigger: true, none: true };
  for (const [use, refused] of Object.entries({ ...uses, workloads: true, key: true, "": true })) {
    for (const policy of ["any", "labelled"] as const) {
      assert.is(isRefused({ labels: { "tenancy.dev/use": use } }, [policy, "workload"]), refused, `${policy} ${use}`);
    }
  }
  assert.ok(isRefused({}, ["labelled", "workload"]));
  assert.ok(isRefused({ labels: { "example.com/use": "workload" } }, ["labelled", "workload"]));
});

test.run();
