// @long every variant of the chart; chart/install installs it
// @own-cluster
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseAllDocuments } from "yaml";
import { chartFiles } from "../../../scripts/chart/files.ts";
import { PARTS } from "../../../scripts/chart/parts.ts";
import { type Kustomization, keyOf, type Rendered, render } from "../../../scripts/chart/render.ts";
import { chart, type Helm, root, startHelm } from "./helm.ts";

const test = suite("the chart");
let helm: Helm;

test.before(async () => {
  helm = await startHelm();
});
test.after(() => helm?.close());

/** The values that stand for a component, as the manifests have it. */
const ON: Record<string, object> = {
  "split-edge": { edge: { split: true } },
  "edge-ingress": { edge: { ingress: { enabled: true, host: "tenancy.example.com" } } },
  "edge-httproute": { edge: { httpRoute: { enabled: true, host: "tenancy.example.com" } } },
  "gateway-ingress": { gateway: { ingress: { enabled: true, host: "hooks.example.com" } } },
  "gateway-httproute": { gateway: { httpRoute: { enabled: true, host: "hooks.example.com" } } },
  "front-door": { frontDoor: { enabled: true, domain: "apps.example.com" } },
  "front-door-public": { frontDoor: { public: true } },
  "front-door-ingress": { frontDoor: { ingress: { enabled: true } } },
  "front-door-httproute": { frontDoor: { httpRoute: { enabled: true } } },
  admission: { admission: { enabled: true } },
  egress: { egress: { enabled: true } },
  builds: { builds: { enabled: true } },
  keys: { keys: { enabled: true } },
  "service-accounts": { serviceAccounts: { enabled: true } },
  nodes: { nodes: { enabled: true } },
  "object-storage": { snapshots: { store: "s3://bucket/snapshots" } },
  sink: { sink: { enabled: true } },
  traces: { traces: { enabled: true } },
  monitoring: { monitoring: { enabled: true } },
  priority: { priority: { enabled: true } },
  "flow-control": { flowControl: { enabled: true } },
  quota: { quota: { enabled: true } },
};

/** What a component is of no use without. */
const NEEDS: Record<string, string> = {
  "gateway-ingress": "split-edge",
  "gateway-httproute": "split-edge",
  "front-door-public": "front-door",
  "front-door-ingress": "front-door",
  "front-door-httproute": "front-door",
};

interface Choice {
  components?: string[];
  values?: object;
  /** What a kustomization of one's own says where the values do. */
  kustomization?: Partial<Kustomization>;
  builds?: Partial<Kustomization>;
  keys?: Partial<Kustomization>;
}

async function assertSame({
  components = [],
  values = {},
  kustomization = {},
  builds = {},
  keys = {},
}: Choice): Promise<void> {
  const all = [...components.map((name) => ON[name] ?? {}), values].reduce(merged, {});
  const ordered = PARTS.map(({ component }) => component).filter((name) => components.includes(name));
  const kustomized = await render(root, { resources: ["base"], components: ordered, ...kustomization });
  if (components.includes("builds")) {
    const policies = components.includes("admission") ? ["admission-builds"] : [];
    kustomized.push(...(await render(root, { resources: ["builds"], components: policies, ...builds })));
  }
  if (components.includes("keys"))
    kustomized.push(...(await render(root, { resources: ["keys"], components: [], ...keys })));
  const templated = await helm(["template", "tenancy", chart], all);
  const ofChart = byKey(parseAllDocuments(templated).map((document) => document.toJS() as Rendered));
  const ofManifests = byKey(kustomized);
  assert.equal([...ofChart.keys()].sort(), [...ofManifests.keys()].sort());
  for (const [key, object] of ofManifests) assert.equal(ofChart.get(key), object, key);
}

function byKey(objects: readonly Rendered[]): Map<string, Rendered> {
  return new Map(objects.map((object) => [keyOf(object), withoutHelmsOwn(object)]));
}

/** The order of variables says nothing, since each is there once. */
function sortEnvironment(object: Rendered): void {
  const { spec } = object as { spec?: { template?: { spec?: { containers?: { env?: { name: string }[] }[] } } } };
  for (const { env = [] } of spec?.template?.spec?.containers ?? []) {
    const names = env.sort((one, other) => one.name.localeCompare(other.name, "en")).map(({ name }) => name);
    assert.equal(names, [...new Set(names)], object.metadata.name);
  }
}

/** Of the ConfigMaps that the pods of a Deployment read. */
function takeChecksum(object: Rendered): string | undefined {
  const { spec } = object as { spec?: { template?: { metadata?: { annotations?: Record<string, string> } } } };
  const { annotations, ...metadata } = spec?.template?.metadata ?? {};
  if (spec?.template === undefined || annotations === undefined) return undefined;
  assert.equal(Object.keys(annotations), ["checksum/config"], object.metadata.name);
  spec.template.metadata = metadata;
  return annotations["checksum/config"];
}

/** What the chart says to Helm alone. */
function withoutHelmsOwn(object: Rendered): Rendered {
  sortEnvironment(object);
  takeChecksum(object);
  const { "helm.sh/resource-policy": _, ...annotations } = object.metadata.annotations ?? {};
  const { annotations: __, ...metadata } = object.metadata;
  const rest = Object.keys(annotations).length === 0 ? {} : { annotations };
  return { ...object, metadata: { ...metadata, ...rest } };
}

function merged(one: object, other: object): object {
  const result: Record<string, unknown> = { ...one };
  for (const [key, value] of Object.entries(other)) {
    const old = result[key];
    const both = [old, value].every((side) => typeof side === "object" && side !== null && !Array.isArray(side));
    result[key] = both ? merged(old as object, value as object) : value;
  }
  return result;
}

const COMPONENTS = Object.keys(ON);

test("has values for every component", () => {
  const ofChart = PARTS.map(({ component }) => component).filter((name) => name !== "admission-builds");
  assert.equal(COMPONENTS.toSorted(), ofChart.sort());
});

test("is what `npm run chart` makes", async () => {
  for (const [path, text] of await chartFiles(root)) assert.is(await readFile(join(root, path), "utf8"), text, path);
});

test("passes helm lint", async () => {
  const said = await helm(["lint", "--strict", chart]);
  assert.match(said, "0 chart(s) failed");
});

test("with default values it has the objects of the base", () => assertSame({}));
test("with all components it has theirs", () => assertSame({ components: COMPONENTS }));

// By the bits of its place: of any two components, one is there without the other in some of these, unless it needs it.
for (const bit of [0, 1, 2, 3, 4])
  for (const value of [0, 1]) {
    const some = COMPONENTS.filter((_, at) => ((at >> bit) & 1) === value);
    const needed = some.flatMap((name) => NEEDS[name] ?? []);
    test(`with ${some.join(", ")} it has theirs`, () => assertSame({ components: [...needed, ...some] }));
  }

const atContainer = (deployment: string, op: object) => ({
  target: { kind: "Deployment", name: deployment },
  patch: JSON.stringify([op]),
});

test("replicas, resources, images, settings and places are where a patch puts them", () => {
  const resources = { requests: { cpu: "2", memory: "1Gi" }, limits: { memory: "4Gi" } };
  const container = "/spec/template/spec/containers/0";
  const env = (deployment: string, name: string, value: string) =>
    atContainer(deployment, { op: "add", path: `${container}/env/-`, value: { name, value } });
  return assertSame({
    values: {
      operator: {
        ...{ replicas: 3, resources, terminationGracePeriodSeconds: 90 },
        env: { TENANCY_LOG_LEVEL: "debug", TENANCY_SNAPSHOT_TTL: 2_592_000, TENANCY_SNAPSHOT_STORE_EMPTY: true },
      },
      edge: { replicas: 5 },
      env: { TENANCY_LOG_LEVEL: "warn", TENANCY_SECRETS: "labelled", OTEL_TRACES_SAMPLER_ARG: 0.25 },
      images: {
        ...{ operator: "registry.example.com/operator@sha256:11", pullPolicy: "Always" },
        pullSecrets: [{ name: "pull" }],
      },
      apiKey: { secretName: "api", secretKey: "key" },
      podServiceAccounts: "agents,more",
      nodeSelector: { disk: "ssd" },
      tolerations: [{ operator: "Exists" }],
      hostAliases: [{ ip: "10.0.0.1", hostnames: ["kubernetes.default.svc"] }],
    },
    kustomization: {
      replicas: [
        { name: "tenancy-operator", count: 3 },
        { name: "tenancy-edge", count: 5 },
      ],
      images: [{ name: "tenancy-operator", newName: "registry.example.com/operator", digest: "sha256:11" }],
      patches: [
        atContainer("tenancy-operator", { op: "replace", path: `${container}/resources`, value: resources }),
        atContainer("tenancy-operator", {
          ...{ op: "replace", path: "/spec/template/spec/terminationGracePeriodSeconds", value: 90 },
        }),
        env("tenancy-operator", "TENANCY_LOG_LEVEL", "debug"),
        env("tenancy-operator", "TENANCY_SNAPSHOT_TTL", "2592000"),
        env("tenancy-operator", "TENANCY_SNAPSHOT_STORE_EMPTY", "true"),
        env("tenancy-operator", "TENANCY_SECRETS", "labelled"),
        env("tenancy-operator", "TENANCY_POD_SERVICE_ACCOUNTS", "agents,more"),
        env("tenancy-edge", "TENANCY_LOG_LEVEL", "warn"),
        env("tenancy-edge", "TENANCY_SECRETS", "labelled"),
        ...["tenancy-operator", "tenancy-edge"].map((name) => env(name, "OTEL_TRACES_SAMPLER_ARG", "0.25")),
        ...["tenancy-operator", "tenancy-edge"].flatMap((name) =>
          [
            [`${container}/imagePullPolicy`, "Always"],
            ["/spec/template/spec/imagePullSecrets", [{ name: "pull" }]],
            ["/spec/template/spec/nodeSelector", { disk: "ssd" }],
            ["/spec/template/spec/tolerations", [{ operator: "Exists" }]],
            ["/spec/template/spec/hostAliases", [{ ip: "10.0.0.1", hostnames: ["kubernetes.default.svc"] }]],
          ].map(([path, value]) => atContainer(name, { op: "add", path, value })),
        ),
        {
          // As docs/how-to/install.md says it.
          target: { kind: "Deployment", name: "tenancy-(edge|gateway|proxy)" },
          patch: JSON.stringify({
            ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "all" } },
            spec: {
              template: {
                spec: {
                  containers: [
                    {
                      name: "edge",
                      env: [{ name: "TENANCY_API_KEY", valueFrom: { secretKeyRef: { name: "api", key: "key" } } }],
                    },
                  ],
                },
              },
            },
          }),
        },
      ],
    },
  });
});

test("a setting of one's own stands in place of the one that the manifests or another value have", () => {
  const set = (deployment: string, container: string, values: Record<string, string>) => ({
    patch: JSON.stringify({
      ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: deployment } },
      spec: {
        template: {
          spec: {
            containers: [{ name: container, env: Object.entries(values).map(([name, value]) => ({ name, value })) }],
          },
        },
      },
    }),
  });
  const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://agent:4318" };
  return assertSame({
    components: ["split-edge", "front-door", "traces"],
    values: {
      env: { TENANCY_STOP_DELAY: 7, TENANCY_EDGE_METRICS_LISTEN: "0.0.0.0:9091" },
      snapshots: { size: "20Gi" },
      operator: { env: { TENANCY_SNAPSHOT_SIZE: "30Gi", ...collector } },
      edge: { env: { TENANCY_STOP_DELAY: 10 } },
    },
    kustomization: {
      patches: [
        set("tenancy-operator", "operator", {
          ...{ TENANCY_STOP_DELAY: "7", TENANCY_EDGE_METRICS_LISTEN: "0.0.0.0:9091", TENANCY_SNAPSHOT_SIZE: "30Gi" },
          ...collector,
        }),
        set("tenancy-edge", "edge", { TENANCY_STOP_DELAY: "10" }),
        ...["tenancy-gateway", "tenancy-proxy"].map((name) => set(name, "edge", { TENANCY_STOP_DELAY: "7" })),
      ],
    },
  });
});

test("another namespace is named everywhere", () =>
  assertSame({
    components: ["split-edge", "front-door", "admission", "egress", "quota", "object-storage"],
    values: { namespace: { name: "tenants" } },
    kustomization: { namespace: "tenants" },
  }));

test("the namespace has the level of Pod Security that a value says, and with egress the one that egress needs", async () => {
  const level = "/metadata/labels/pod-security.kubernetes.io~1enforce";
  await assertSame({
    values: { namespace: { podSecurity: "restricted" } },
    kustomization: {
      patches: [
        {
          target: { kind: "Namespace" },
          patch: JSON.stringify([{ op: "replace", path: level, value: "restricted" }]),
        },
      ],
    },
  });
  await assertSame({ components: ["egress"], values: { namespace: { podSecurity: "baseline" } } });
});

test("in another namespace what is the cluster's has another name, so that a second release can have it too", () => {
  const replace = (target: object, ...operations: [path: string, value: string][]) => ({
    target,
    patch: JSON.stringify(operations.map(([path, value]) => ({ op: "replace", path, value }))),
  });
  const accounts = (count: number) =>
    Array.from({ length: count }, (_, at): [string, string] => [
      `/spec/rules/0/subjects/${at}/serviceAccount/namespace`,
      "tenants",
    ]);
  return assertSame({
    components: ["split-edge", "front-door", "priority", "flow-control"],
    values: { namespace: { name: "tenants" } },
    kustomization: {
      namespace: "tenants",
      patches: [
        replace({ kind: "PriorityClass|PriorityLevelConfiguration" }, ["/metadata/name", "tenancy.tenants"]),
        replace(
          { kind: "FlowSchema", name: "tenancy" },
          ["/metadata/name", "tenancy.tenants"],
          ["/spec/priorityLevelConfiguration/name", "tenancy.tenants"],
          ...accounts(5),
        ),
        replace(
          { kind: "FlowSchema", name: "tenancy-leases" },
          ["/metadata/name", "tenancy-leases.tenants"],
          ["/spec/rules/0/resourceRules/0/namespaces/0", "tenants"],
          ...accounts(3),
        ),
      ],
    },
  });
});

test("images are built in another namespace, of which the operator and the edge know", () =>
  assertSame({
    components: ["builds"],
    values: { builds: { namespace: "images", registry: "registry.example.com/tenants" } },
    kustomization: {
      patches: ["tenancy-operator", "tenancy-edge"].flatMap((name) =>
        [
          ...(name === "tenancy-operator" ? [["TENANCY_REGISTRY", "registry.example.com/tenants"]] : []),
          ["TENANCY_BUILD_NAMESPACE", "images"],
        ].map(([variable, value]) =>
          atContainer(name, {
            ...{ op: "add", path: "/spec/template/spec/containers/0/env/-" },
            value: { name: variable, value },
          }),
        ),
      ),
    },
    builds: { namespace: "images" },
  }));

test("keys are in another namespace, of which the edge knows", () =>
  assertSame({
    components: ["keys"],
    values: { keys: { namespace: "credentials" } },
    kustomization: {
      patches: [
        {
          target: { kind: "Deployment", name: "tenancy-edge" },
          patch: JSON.stringify({
            ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "tenancy-edge" } },
            spec: {
              template: {
                spec: {
                  containers: [{ name: "edge", env: [{ name: "TENANCY_KEYS_NAMESPACE", value: "credentials" }] }],
                },
              },
            },
          }),
        },
      ],
    },
    keys: { namespace: "credentials" },
  }));

test("a single replica has no disruption budget", () =>
  assertSame({
    values: { operator: { replicas: 1 } },
    kustomization: {
      replicas: [{ name: "tenancy-operator", count: 1 }],
      patches: [without("PodDisruptionBudget", "tenancy-operator")],
    },
  }));

test("network policies can be left out, and what another release in the cluster has", () =>
  assertSame({
    components: ["traces", "object-storage", "admission"],
    values: { networkPolicies: { enabled: false }, crds: { install: false }, admission: { policies: false } },
    kustomization: {
      patches: ["NetworkPolicy", "CustomResourceDefinition", "ValidatingAdmissionPolicy(Binding)?"].map((kind) =>
        without(kind),
      ),
    },
  }));

test("hosts, classes, certificates, a bucket, a collector and bounds are those of the values", () => {
  const limits = [{ type: "Container", max: { memory: "1Gi" } }];
  const change = (kind: string, name: string, ...operations: [path: string, value: unknown][]) => ({
    target: { kind, name: `^${name}$` },
    patch: JSON.stringify(operations.map(([path, value]) => ({ op: "add", path, value }))),
  });
  return assertSame({
    components: [
      ...["edge-ingress", "front-door", "front-door-ingress", "front-door-httproute"],
      ...["object-storage", "sink", "traces", "quota", "monitoring"],
    ],
    values: {
      edge: { ingress: { host: "api.acme.com", className: "public", tlsSecretName: "acme-tls" } },
      frontDoor: {
        ...{ domain: "apps.acme.com", trusted: "10.0.0.0/8", api: "" },
        httpRoute: { parentRefs: [{ name: "public", namespace: "gateways" }] },
      },
      snapshots: { store: "s3://acme/tenants", region: "us-west-2", endpoint: "https://minio.acme.com:9000" },
      sink: { address: "http://sink.bills:8081", namespace: "bills", port: 8081 },
      traces: { endpoint: "http://otel.watch:4319", namespace: "watch", port: 4319, headersSecret: "otel" },
      quota: { limits },
      monitoring: { labels: { release: "prometheus" }, interval: "15s" },
      operator: { serviceAccountAnnotations: { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x" } },
    },
    kustomization: {
      patches: [
        change(
          ...(["Ingress", "tenancy-edge"] as const),
          ["/spec/ingressClassName", "public"],
          ["/spec/tls/0/hosts", ["api.acme.com"]],
          ["/spec/tls/0/secretName", "acme-tls"],
          ["/spec/rules/0/host", "api.acme.com"],
        ),
        change(
          ...(["Ingress", "tenancy-proxy"] as const),
          ["/spec/tls/0/hosts", ["*.apps.acme.com", "apps.acme.com"]],
          ["/spec/rules/0/host", "*.apps.acme.com"],
          ["/spec/rules/1/host", "apps.acme.com"],
        ),
        change(
          ...(["HTTPRoute", "tenancy-proxy"] as const),
          ["/spec/hostnames", ["*.apps.acme.com", "apps.acme.com"]],
          ["/spec/parentRefs", [{ name: "public", namespace: "gateways" }]],
        ),
        change("ConfigMap", "tenancy-proxy", ["/data", { domain: "apps.acme.com", trusted: "10.0.0.0/8" }]),
        change(
          ...(["ConfigMap", "tenancy-object-storage"] as const),
          ["/data/TENANCY_SNAPSHOT_STORE", "s3://acme/tenants"],
          ["/data/TENANCY_SNAPSHOT_REGION", "us-west-2"],
          ["/data/TENANCY_SNAPSHOT_ENDPOINT", "https://minio.acme.com:9000"],
        ),
        change("NetworkPolicy", "tenancy-object-storage", ["/spec/egress/1/ports/0/port", 9000]),
        change(
          ...(["NetworkPolicy", "tenancy-sink"] as const),
          ["/spec/egress/0/to/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name", "bills"],
          ["/spec/egress/0/ports/0/port", 8081],
        ),
        change(
          ...(["NetworkPolicy", "tenancy-traces"] as const),
          ["/spec/egress/0/to/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name", "watch"],
          ["/spec/egress/0/ports/0/port", 4319],
        ),
        ...["tenancy-operator", "tenancy-edge", "tenancy-proxy"].map((name) => ({
          target: { kind: "Deployment", name },
          patch: JSON.stringify({
            ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name } },
            spec: {
              template: {
                spec: {
                  containers: [
                    {
                      name: name === "tenancy-operator" ? "operator" : "edge",
                      env: [
                        ...(name === "tenancy-proxy"
                          ? []
                          : [{ name: "TENANCY_SINK", value: "http://sink.bills:8081" }]),
                        { name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: "http://otel.watch:4319" },
                        {
                          name: "OTEL_EXPORTER_OTLP_HEADERS",
                          valueFrom: { secretKeyRef: { name: "otel", key: "headers" } },
                        },
                      ],
                    },
                  ],
                },
              },
            },
          }),
        })),
        change(
          ...(["ServiceMonitor", "tenancy"] as const),
          ["/metadata/labels", { release: "prometheus" }],
          ["/spec/endpoints/0/interval", "15s"],
        ),
        change("PrometheusRule", "tenancy", ["/metadata/labels", { release: "prometheus" }]),
        change("LimitRange", "tenancy", ["/spec/limits", limits]),
        change("ServiceAccount", "tenancy-operator", [
          "/metadata/annotations",
          { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x" },
        ]),
      ],
    },
  });
});

test("the policy of object storage opens the port of its endpoint", async () => {
  for (const [endpoint, port] of [
    ["", 443],
    ["https://minio.acme.com", 443],
    ["https://minio.acme.com:9000/", 9000],
    ["http://minio.storage", 80],
    ["http://[fd00::1]", 80],
    ["http://[fd00::1]:9000", 9000],
  ] as const) {
    const printed = await helm(["template", "tenancy", chart, "--show-only", "templates/object-storage.yaml"], {
      snapshots: { store: "s3://acme/tenants", endpoint },
    });
    const objects = parseAllDocuments(printed).map((one) => one.toJS() as Rendered);
    const policy = objects.find(({ kind }) => kind === "NetworkPolicy") as unknown as {
      spec: { egress: { ports: unknown }[] };
    };
    assert.equal(policy.spec.egress[1]?.ports, [{ port }], endpoint);
  }
});

test("the pods that read a bucket or a domain at their start are replaced when it changes, and no others", async () => {
  const before = {
    edge: { split: true },
    frontDoor: { enabled: true, public: true, domain: "apps.acme.com" },
    snapshots: { store: "s3://acme/tenants" },
  };
  const checksums = async (values: object) => {
    const objects = parseAllDocuments(await helm(["template", "tenancy", chart], merged(before, values)));
    const deployments = objects.map((one) => one.toJS() as Rendered).filter(({ kind }) => kind === "Deployment");
    return new Map(deployments.map((one) => [one.metadata.name, takeChecksum(one)]));
  };
  const first = await checksums({});
  const replaced = async (values: object) => {
    const now = await checksums(values);
    return [...first].flatMap(([name, checksum]) => (now.get(name) === checksum ? [] : [name])).sort();
  };
  assert.equal(await replaced({ quota: { enabled: true } }), []);
  const readers = ["tenancy-edge", "tenancy-operator", "tenancy-proxy"];
  for (const snapshots of [{ store: "s3://acme/others" }, { region: "eu-west-1" }, { store: "volume" }])
    assert.equal(await replaced({ snapshots }), readers);
  for (const frontDoor of [{ domain: "apps.example.com" }, { trusted: "10.0.0.0/8" }])
    assert.equal(await replaced({ frontDoor }), ["tenancy-edge", "tenancy-proxy"]);
});

function without(kind: string, name = "any") {
  return {
    target: { kind, ...(name === "any" ? {} : { name }) },
    patch: JSON.stringify({ $patch: "delete", kind, metadata: { name } }),
  };
}

const refused: [what: string, values: object, message: RegExp][] = [
  ["a value that there is not", { replicas: 3 }, /Additional property replicas is not allowed/],
  ["no replica", { edge: { replicas: 0 } }, /edge\.replicas: Must be greater than or equal to 1/],
  ["a key of the API among the settings, which Helm keeps", { env: { TENANCY_API_KEY: "x" } }, /"TENANCY_API_KEY"/],
  ["a key of a bucket there", { edge: { env: { AWS_SECRET_ACCESS_KEY: "x" } } }, /"AWS_SECRET_ACCESS_KEY"/],
  [
    "a quantity that is none",
    { operator: { resources: { limits: { memory: "1 GB" } } } },
    /operator\.resources\.limits/,
  ],
  ["a store of another kind", { snapshots: { store: "gs://bucket" } }, /snapshots\.store: Does not match pattern/],
  ["a namespace that cannot be one", { namespace: { name: "Tenants" } }, /namespace\.name: Does not match pattern/],
  ["an Ingress without a host", { edge: { ingress: { enabled: true } } }, /edge\.ingress\.host: is needed/],
  ["a front door without a domain", { frontDoor: { enabled: true } }, /frontDoor\.domain: is needed/],
  [
    "a level of Pod Security under which egress has no init container",
    { egress: { enabled: true }, namespace: { podSecurity: "restricted" } },
    /namespace\.podSecurity: restricted forbids it/,
  ],
  [
    "a route to a gateway that is not apart",
    { gateway: { ingress: { enabled: true, host: "hooks.example.com" } } },
    /gateway\.ingress and gateway\.httpRoute need edge\.split/,
  ],
];
for (const [what, values, message] of refused)
  test(`refuses ${what}`, async () => {
    const reason = await helm(["template", "tenancy", chart], values).then(() => "taken", String);
    assert.match(reason, message);
  });

test("refuses admission where Kubernetes is too old for it", async () => {
  const old = ["template", "tenancy", chart, "--kube-version", "v1.29.4"];
  const reason = await helm(old, { admission: { enabled: true } }).then(() => "taken", String);
  assert.match(reason, /admission\.enabled needs Kubernetes 1\.30 or later; this is v1\.29\.4/);
});

test.run();
