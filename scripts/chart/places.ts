import { PROGRAMS } from "./parts.ts";
import type { Condition, Write } from "./tree.ts";

/** The place of a value in the manifests. */
export interface Place {
  /** The object, such as `Deployment tenancy-edge`. */
  object: string;
  /** Keys, and the names or indexes of list items. If the last key is missing, it is added. */
  path: readonly string[];
  write: Write;
  /** The condition under which the place exists. */
  when?: Condition;
  /** The only value at this place that is replaced. @default any */
  of?: string;
  /** The chart value, such as `edge.replicas`. Its default is what the manifests have at this place. */
  defaultOf?: string;
  /** Adds an item to the list at the path. */
  append?: boolean;
  /** The name of that item. */
  name?: string;
  /** If an added item has the same name as an item of the list, it replaces that item. */
  brings?: (name: string) => string;
}

const inline =
  (expression: string): Write =>
  () =>
    `{{ ${expression} }}`;
const quoted = (expression: string): Write => inline(`${expression} | quote`);
const block =
  (expression: string): Write =>
  (indent) =>
    `{{- toYaml ${expression} | nindent ${indent} }}`;
const listOf = (expressions: readonly string[]): Write =>
  block(`(list ${expressions.map((one) => `(${one})`).join(" ")})`);

const pod = ["spec", "template", "spec"] as const;
const container = [...pod, "containers", "0"] as const;

/** A value that replaces what the manifests have; that is its default. */
function value(object: string, path: readonly string[], name: string, how = quoted): Place {
  return { object, path, write: how(`.Values.${name}`), defaultOf: name };
}

/** An environment variable that exists if its value is not empty. */
function variable(
  object: string,
  name: string,
  { expression, when = expression }: { expression: string; when?: string },
): Place {
  const write: Write = (indent) => {
    const space = " ".repeat(indent);
    return `${space}- name: ${name}\n${space}  value: {{ ${expression} | quote }}`;
  };
  return { object, path: [...container, "env"], write, when, append: true, name };
}

function traceHeaders(object: string): Place {
  const name = "OTEL_EXPORTER_OTLP_HEADERS";
  const write: Write = (indent) => {
    const lines = [
      `- name: ${name}`,
      "  valueFrom:",
      "    secretKeyRef:",
      "      name: {{ .Values.traces.headersSecret | quote }}",
      "      key: headers",
    ];
    return lines.map((line) => " ".repeat(indent) + line).join("\n");
  };
  const when = "and .Values.traces.enabled .Values.traces.headersSecret";
  return { object, path: [...container, "env"], write, when, append: true, name };
}

/**
 * The settings of `env` and of the program's own `env`, which takes precedence. They replace those of the manifests,
 * because an upgrade loses one of two entries with the same name (docs/decisions/install.md#a-setting-stands-once).
 */
function settings(object: string, program: string): Place {
  const write: Write = (indent) => {
    const space = " ".repeat(indent);
    return [
      `{{- range $name, $value := merge (dict) .Values.${program}.env .Values.env }}`,
      `${space}- name: {{ $name }}`,
      // As JSON, since Helm reads a number as a float, and Go prints a float of seven digits with an exponent.
      `${space}  value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}`,
      "{{- end }}",
    ].join("\n");
  };
  const brings = (name: string) => `or (hasKey .Values.${program}.env "${name}") (hasKey .Values.env "${name}")`;
  return { object, path: [...container, "env"], write, append: true, brings };
}

function programPlaces([deployment, program]: readonly [string, string]): Place[] {
  const object = `Deployment ${deployment}`;
  const optional = (path: readonly string[], expression: string, how = block): Place => ({
    ...{ object, path, write: how(expression), when: expression },
  });
  return [
    value(object, ["spec", "replicas"], `${program}.replicas`, inline),
    value(object, [...container, "resources"], `${program}.resources`, block),
    value(object, [...pod, "terminationGracePeriodSeconds"], `${program}.terminationGracePeriodSeconds`, inline),
    value(object, [...container, "image"], program === "operator" ? "images.operator" : "images.edge"),
    optional([...container, "imagePullPolicy"], ".Values.images.pullPolicy", inline),
    optional([...pod, "imagePullSecrets"], ".Values.images.pullSecrets"),
    optional([...pod, "nodeSelector"], ".Values.nodeSelector"),
    optional([...pod, "tolerations"], ".Values.tolerations"),
    optional([...pod, "hostAliases"], ".Values.hostAliases"),
    ...(program === "operator" ? [] : apiKey(object)),
  ];
}

function apiKey(object: string): Place[] {
  const reference = [...container, "env", "TENANCY_API_KEY", "valueFrom", "secretKeyRef"];
  return [
    value(object, [...reference, "name"], "apiKey.secretName"),
    value(object, [...reference, "key"], "apiKey.secretKey"),
  ];
}

/** With `edge.split`, the API has another account. */
const ACCOUNTS = {
  "tenancy-operator": "operator",
  "tenancy-edge": "edge",
  "tenancy-api": "edge",
  "tenancy-gateway": "gateway",
  "tenancy-proxy": "frontDoor",
} as const;

function accountPlace([account, program]: readonly [string, string]): Place {
  const expression = `.Values.${program}.serviceAccountAnnotations`;
  const object = `ServiceAccount ${account}`;
  return { object, path: ["metadata", "annotations"], write: block(expression), when: expression };
}

function routePlaces([service, { program, hosts }]: readonly [
  string,
  { program: string; hosts: (kind: string) => string[] },
]): Place[] {
  const ingress = `Ingress ${service}`;
  const route = `HTTPRoute ${service}`;
  const of = `${program}.ingress`;
  return [
    value(ingress, ["metadata", "annotations"], `${of}.annotations`, block),
    {
      ...{ object: ingress, path: ["spec", "ingressClassName"], write: quoted(`.Values.${of}.className`) },
      when: `.Values.${of}.className`,
    },
    { object: ingress, path: ["spec", "tls", "0", "hosts"], write: listOf(hosts("ingress")) },
    value(ingress, ["spec", "tls", "0", "secretName"], `${of}.tlsSecretName`),
    ...hosts("ingress").map((host, at) => ({
      ...{ object: ingress, path: ["spec", "rules", String(at), "host"] },
      ...{ write: quoted(host) },
    })),
    { object: route, path: ["spec", "hostnames"], write: listOf(hosts("httpRoute")) },
    value(route, ["spec", "parentRefs"], `${program}.httpRoute.parentRefs`, block),
  ];
}

const needed = (name: string): string => `required "${name}: is needed" .Values.${name}`;
const ownHost =
  (program: string) =>
  (kind: string): string[] => [needed(`${program}.${kind}.host`)];
const domain = needed("frontDoor.domain");

const ROUTES = {
  "tenancy-edge": { program: "edge", hosts: ownHost("edge") },
  "tenancy-gateway": { program: "gateway", hosts: ownHost("gateway") },
  "tenancy-proxy": { program: "frontDoor", hosts: () => [`printf "*.%s" (${domain})`, domain] },
};

const bucket = "ConfigMap tenancy-object-storage";
const bucketPort = inline(
  '(urlParse .Values.snapshots.endpoint).host | regexFind ":[0-9]+$" | trimPrefix ":" ' +
    '| default (ternary "80" "443" (hasPrefix "http:" .Values.snapshots.endpoint))',
);
const operator = "Deployment tenancy-operator";
const edge = "Deployment tenancy-edge";
const buildNamespace = {
  expression: ".Values.builds.namespace",
  when: 'and .Values.builds.enabled (ne .Values.builds.namespace "tenancy-builds")',
};
const ofBuilds = (name: string) => ({
  expression: `.Values.builds.${name}`,
  when: `and .Values.builds.enabled .Values.builds.${name}`,
});
/** The name of a cluster-scoped object, so that a second release can have one too. A namespace's name has no dot. */
const ownName = (name: string): Write =>
  quoted(`ternary "${name}" (printf "${name}.%s" .Values.namespace.name) (eq .Values.namespace.name "tenancy")`);
const priorityLevel = "PriorityLevelConfiguration tenancy";

/** To which namespace and port the network policy of a part opens a way. */
function egressOf(part: string): Place[] {
  const object = `NetworkPolicy tenancy-${part}`;
  const rule = ["spec", "egress", "0"];
  const namespace = [...rule, "to", "0", "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name"];
  return [
    value(object, namespace, `${part}.namespace`),
    value(object, [...rule, "ports", "0", "port"], `${part}.port`, inline),
  ];
}

/** Only in the namespace of builds. The ConfigMap in the namespace of tenants has the same name. */
export const JOB_CONTROLLERS = "system:serviceaccount:kube-system:job-controller system:kube-controller-manager";

export const PLACES: readonly Place[] = [
  {
    ...{ object: "Namespace tenancy", path: ["metadata", "labels", "pod-security.kubernetes.io/enforce"] },
    ...{ of: "baseline", write: quoted(".Values.namespace.podSecurity") },
  },
  ...Object.entries(PROGRAMS).flatMap(programPlaces),
  ...Object.entries(ACCOUNTS).map(accountPlace),
  ...Object.entries(ROUTES).flatMap(routePlaces),
  { object: "ConfigMap tenancy-proxy", path: ["data", "domain"], write: quoted(domain) },
  {
    ...{ object: "ConfigMap tenancy-admission", path: ["data", "jobControllers"], of: JOB_CONTROLLERS },
    write: quoted(".Values.admission.jobControllers"),
  },
  { ...value("ConfigMap tenancy-admission", ["data", "pod-service-accounts"], "podServiceAccounts"), of: "" },
  variable(operator, "TENANCY_POD_SERVICE_ACCOUNTS", { expression: ".Values.podServiceAccounts" }),
  {
    ...{ object: "ConfigMap tenancy-proxy", path: ["data", "trusted"] },
    ...{ write: quoted(".Values.frontDoor.trusted"), when: ".Values.frontDoor.trusted" },
  },
  { ...value("ConfigMap tenancy-proxy", ["data", "api"], "frontDoor.api"), when: ".Values.frontDoor.api" },
  value(operator, [...container, "env", "TENANCY_PROXY_IMAGE", "value"], "images.egressProxy"),
  variable(operator, "TENANCY_REGISTRY", ofBuilds("registry")),
  variable(operator, "TENANCY_REGISTRY_SECRET", ofBuilds("registrySecret")),
  variable(operator, "TENANCY_REGISTRY_PULL_SECRET", ofBuilds("pullSecret")),
  ...[operator, edge].map((object) => variable(object, "TENANCY_BUILD_NAMESPACE", buildNamespace)),
  ...[edge, "Deployment tenancy-gateway", "Deployment tenancy-proxy"].map((object) =>
    value(object, [...container, "env", "TENANCY_KEYS_NAMESPACE", "value"], "keys.namespace"),
  ),
  variable(operator, "TENANCY_SNAPSHOT_SIZE", { expression: ".Values.snapshots.size" }),
  variable(operator, "TENANCY_SNAPSHOT_STORAGE_CLASS", { expression: ".Values.snapshots.storageClass" }),
  { object: bucket, path: ["data", "TENANCY_SNAPSHOT_STORE"], write: quoted(".Values.snapshots.store") },
  value(bucket, ["data", "TENANCY_SNAPSHOT_REGION"], "snapshots.region"),
  {
    ...{ object: bucket, path: ["data", "TENANCY_SNAPSHOT_ENDPOINT"] },
    ...{ write: quoted(".Values.snapshots.endpoint"), when: ".Values.snapshots.endpoint" },
  },
  {
    object: "NetworkPolicy tenancy-object-storage",
    path: ["spec", "egress", "1", "ports", "0", "port"],
    write: bucketPort,
  },
  ...[operator, edge].flatMap((object) => [
    value(object, [...container, "env", "TENANCY_SINK", "value"], "sink.address"),
    ...["TENANCY_SINK_SECRET", "TENANCY_SINK_TOKEN"].map((name) =>
      value(object, [...container, "env", name, "valueFrom", "secretKeyRef", "name"], "sink.secretName"),
    ),
    variable(object, "TENANCY_SINK_EVENTS", {
      expression: ".Values.sink.events",
      when: "and .Values.sink.enabled .Values.sink.events",
    }),
  ]),
  ...egressOf("sink"),
  ...Object.keys(PROGRAMS).map((deployment) => ({
    ...{ object: `Deployment ${deployment}`, path: [...container, "env", "OTEL_EXPORTER_OTLP_ENDPOINT", "value"] },
    ...{ write: quoted(".Values.traces.endpoint"), defaultOf: "traces.endpoint" },
  })),
  ...Object.keys(PROGRAMS).map((deployment) => traceHeaders(`Deployment ${deployment}`)),
  ...egressOf("traces"),
  value("ServiceMonitor tenancy", ["spec", "endpoints", "0", "interval"], "monitoring.interval"),
  ...["ServiceMonitor tenancy", "PrometheusRule tenancy"].map((object) => ({
    ...{ object, path: ["metadata", "labels"], when: ".Values.monitoring.labels" },
    write: block(".Values.monitoring.labels"),
  })),
  value("PriorityClass tenancy", ["value"], "priority.value", inline),
  value(priorityLevel, ["spec", "limited", "nominalConcurrencyShares"], "flowControl.shares", inline),
  ...["PriorityClass tenancy", priorityLevel, "FlowSchema tenancy"].map((object) => ({
    ...{ object, path: ["metadata", "name"], write: ownName("tenancy") },
  })),
  { object: "FlowSchema tenancy-leases", path: ["metadata", "name"], write: ownName("tenancy-leases") },
  { object: "FlowSchema tenancy", path: ["spec", "priorityLevelConfiguration", "name"], write: ownName("tenancy") },
  {
    ...{ object: "ClusterRoleBinding tenancy-token-reviews", path: ["metadata", "name"] },
    write: ownName("tenancy-token-reviews"),
  },
  ...["ClusterRole tenancy-nodes", "ClusterRoleBinding tenancy-nodes"].map((object) => ({
    ...{ object, path: ["metadata", "name"], write: ownName("tenancy-nodes") },
  })),
  { object: "ClusterRoleBinding tenancy-nodes", path: ["roleRef", "name"], write: ownName("tenancy-nodes") },
  ...Object.keys(PROGRAMS).map((deployment) => ({
    ...{ object: `Deployment ${deployment}`, path: [...pod, "priorityClassName"], write: ownName("tenancy") },
  })),
  value("ResourceQuota tenancy", ["spec", "hard"], "quota.hard", block),
  value("LimitRange tenancy", ["spec", "limits"], "quota.limits", block),
  // They come last, so that they also replace what values have added.
  ...Object.entries(PROGRAMS).map(([deployment, program]) => settings(`Deployment ${deployment}`, program)),
];
