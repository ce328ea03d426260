import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { buildJobName, claimSecretName, isObjectName, policyName, serviceName } from "../../../crds/names.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { botIdentity } from "../../../edge/gateway/messenger/bot-lease.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { egressNames } from "../../../operator/egress/egress-names.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { renderHostVolume } from "../../../scripts/start/snapshots-volume.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/**
 * Every generator of names, by the kind of object, of one word: a workload, a token, a namespace; a constant takes no
 * notice of it.
 */
const generators: Record<string, Record<string, (word: string) => string>> = {
  NetworkPolicy: { policyName, SNAPSHOTS_NAME: () => SNAPSHOTS_NAME },
  Service: { serviceName },
  ConfigMap: { "egressNames settings": (workload) => egressNames(workload).settings },
  Secret: {
    "egressNames leaves": (workload) => egressNames(workload).leaves,
    "egressNames authority": (workload) => egressNames(workload).authority,
    claimSecretName,
  },
  Lease: {
    LEASE_NAME: () => "tenancy-operator",
    botIdentity: (token) => botIdentity(token, "https://messenger.example").lease,
  },
  Job: { buildJobName: (workload) => buildJobName(workload, "0".repeat(64)) },
  PersistentVolume: {
    renderHostVolume: (namespace) => renderHostVolume({ namespace, size: "1Gi", path: "/volume" }).metadata.name,
  },
};

/** Names that alone do not tell one object from another, and what does. */
const told: Record<string, string> = {
  claimName: "spec.tenantId and spec.workloadRef",
  hashedClaimName: "spec.tenantId and spec.workloadRef",
  nextClaimName: "spec.tenantId and spec.workloadRef",
  instanceName: "the annotation with the claim's uid",
  poolInstanceName: "the label of the pool, and a suffix by chance",
  formerPolicyName: "the label of the workload",
  formerEgressNames: "the label of the workload",
};

/** Files that make names, and the constants that are whole names or begin some. */
const makers = {
  "crds/client/event-recorder.ts": "the uid and what happened are in the suffix",
  "crds/host-name.ts": "host-name.test.ts",
  "crds/names.ts": "above",
  "operator/egress/egress-names.ts": "above",
};

// The words that our prefixes end with, so that the joint can be shifted.
const words = [
  "a",
  "ca",
  "x",
  "egress",
  "snapshots",
  "operator",
  "messenger",
  "tenancy",
  "workload",
  "pool",
  "0",
  "1f",
];
const word = fc
  .array(fc.tuple(fc.constantFrom(...words), fc.constantFrom("-", "-", ".", "--")), { minLength: 1, maxLength: 12 })
  .map((pieces) =>
    pieces
      .map((piece) => piece.join(""))
      .join("")
      .replace(/[-.]+$/, ""),
  )
  .filter(isObjectName);

test("no two generators of one kind, and no generator for two words, give the same name", () => {
  for (const [kind, all] of Object.entries(generators)) {
    const entries = Object.entries(all);
    const drawn = fc.tuple(fc.constantFrom(...entries), word);
    const related = fc.tuple(drawn, fc.constantFrom(...entries), fc.constantFrom("", "ca-", "ca.", "egress-", "a-"));
    fc.assert(
      fc.property(related, drawn, ([[one, text], other, shift], [third, another]) => {
        const names = new Map<string, string>();
        for (const [[label, name], input] of [
          [one, text],
          [other, `${shift}${text}`],
          [third, another],
        ] as const) {
          const made = name(input);
          const owner = name.length === 0 ? label : `${label} ${input}`;
          assert.is(names.get(made) ?? owner, owner, `${kind} ${made}`);
          names.set(made, owner);
        }
      }),
      { numRuns: 3000 },
    );
  }
});

test("no prefix of a kind begins another one, whatever follows", () => {
  for (const [kind, all] of Object.entries(generators)) {
    const prefixes = Object.values(all).map((name) => {
      const [first = "", second = ""] = [name("q0"), name("z9")];
      let length = 0;
      while (length < first.length && first[length] === second[length]) length += 1;
      return first.slice(0, length);
    });
    for (const [index, one] of prefixes.entries()) {
      for (const other of prefixes.slice(index + 1))
        assert.not.ok(one.startsWith(other) || other.startsWith(one), `${kind}: ${one} and ${other}`);
    }
  }
});

test("long names that differ in their ends alone share no name, as many as a cluster will ever hold", () => {
  const stem = "a-workload-with-a-long-name-that-fills-all-there-is-";
  const long = Array.from({ length: 2000 }, (_, index) => `${stem}${String(index).padStart(16, "0")}`);
  for (const [kind, all] of Object.entries(generators)) {
    for (const [label, name] of Object.entries(all)) {
      if (name.length === 0) continue;
      const names = long.map(name);
      assert.is(new Set(names).size, names.length, `${kind} ${label}`);
      if (names.every((one, index) => one.includes(long[index] ?? ""))) continue;
      // With 16 hexadecimal digits two of 100 000 names are the same once in three thousand million times.
      const digits = [...(names[0] ?? "")].filter((_, at) => new Set(names.map((one) => one[at])).size === 16);
      assert.ok(digits.length >= 16, `${kind} ${label}: ${digits.length} digits tell its names apart`);
    }
  }
});

test("the volumes and containers of a pod with everything have names of their own", () => {
  const headers = [{ name: "Authorization", valueFrom: { secretKeyRef: { name: "vault", key: "token" } } }];
  const pod = renderPod(
    {
      metadata: { name: "w", uid: "u" },
      spec: {
        image: { ref: "i" },
        filesystem: { overlayDirs: ["/a", "/b"] },
        network: { access: "restricted", credentials: [{ domain: "api.example", headers }] },
      },
    },
    { name: "p", labels: {}, annotations: {} },
    operatorConfig({ TENANCY_PROXY_IMAGE: "proxy:1" }),
    { restoreAs: { uid: 1, gid: 1 } },
  );
  const volumes = (pod.spec.volumes ?? []).map(({ name }) => name);
  const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers].map(({ name }) => name);
  for (const names of [volumes, containers]) {
    assert.ok(names.length > 2);
    assert.is(new Set(names).size, names.length, String(names));
  }
});

function sources(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => `${folder}/${path}`);
}

test("every generator is in the lists above", () => {
  const found = ["crds", "operator", "edge"].flatMap(sources).filter((path) => {
    return /\bobjectName\(/.test(readFileSync(join(root, path), "utf8"));
  });
  assert.equal(found.sort(), Object.keys(makers).sort());
  const listed = [...Object.values(generators).flatMap((all) => Object.keys(all)), ...Object.keys(told)];
  for (const path of ["crds/names.ts", "operator/egress/egress-names.ts"]) {
    for (const [, name = ""] of readFileSync(join(root, path), "utf8").matchAll(/export function (\w*[nN]ames?)\(/g)) {
      // `objectName` is what all generators call.
      if (!/^is|^objectName$/.test(name))
        assert.ok(
          listed.some((entry) => entry.split(" ")[0] === name),
          name,
        );
    }
  }
  // A name that is put together by hand has no generator.
  const byHand = ["crds", "operator", "edge"].flatMap(sources).filter((path) => {
    return /\bname: `|(?<!app)(?<!file)(?<!host)(?<!path)[nN]ame = `/.test(readFileSync(join(root, path), "utf8"));
  });
  // The definitions of the kinds, the ports of a Service, the pods that pull an image by the hash of workload, node and
  // image, and the overlay volumes of a pod, by their numbers.
  const known = [
    "crds/definitions/definition.ts",
    "operator/claim/ensure-service.ts",
    "operator/prepull/prepull-pod.ts",
    "operator/snapshots/pods/pod-tools.ts",
  ];
  assert.equal(byHand.sort(), known);
});

test.run();
