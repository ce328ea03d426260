// The chart's values. values.yaml, values.schema.json and the chart's page are generated from them. A value without a
// default has the default of its place in the manifests (places.ts).
import { type TSchema, Type } from "@sinclair/typebox";
import { JOB_CONTROLLERS } from "./places.ts";

const strict = { additionalProperties: false };

const replicas = (what: string) => Type.Integer({ minimum: 1, description: `replicas of ${what}` });
const text = (description: string, options: object = {}) => Type.String({ description, ...options });
const flag = (description: string, fallback = false) => Type.Boolean({ description, default: fallback });
const list = (description: string, options: object = {}) => Type.Array(Type.Any(), { description, ...options });
/** An object with any keys. */
const map = (description: string, options: object = {}) =>
  Type.Object({}, { additionalProperties: true, description, ...options });

const quantity = { anyOf: [{ type: "string", pattern: "^[0-9.]+([eE][0-9]+|[numkMGTPE]i?)?$" }, { type: "number" }] };
const resources = (what: string) =>
  Type.Unsafe({
    type: "object",
    description: `requests and limits of ${what}`,
    properties: {
      requests: { type: "object", additionalProperties: quantity },
      limits: { type: "object", additionalProperties: quantity },
    },
    additionalProperties: false,
  });
/** Settings that are or contain secrets. */
const SECRETS = [
  ...["TENANCY_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
  ...["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"],
];
const environment = (what: string) =>
  map(`settings of ${what} (docs/reference/settings.md); nothing secret, for Helm keeps values`, {
    default: {},
    additionalProperties: { type: ["string", "number", "boolean"] },
    propertyNames: {
      pattern: "^[A-Z][A-Z0-9_]*$",
      not: { enum: SECRETS },
    },
  });
const accountAnnotations = (what: string) =>
  map(`annotations of the service account of ${what}, such as a cloud's role`, {
    default: {},
    additionalProperties: { type: "string" },
  });
const program = (what: string) => ({
  replicas: replicas(what),
  resources: resources(what),
  env: environment(what),
  serviceAccountAnnotations: accountAnnotations(what),
  terminationGracePeriodSeconds: Type.Integer({
    minimum: 0,
    description: `for a stop of ${what} (docs/how-to/upgrade.md)`,
  }),
});

const hostName = "^(\\*\\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$|^$";
const objectName = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
const namespaceName = { pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength: 63 };

const ingressFields = {
  className: text("its class; the cluster's default where empty", { default: "" }),
  tlsSecretName: text("the Secret with the certificate", { pattern: objectName }),
  annotations: map("annotations; those that are there are ingress-nginx's", {
    additionalProperties: { type: "string" },
  }),
};
const parentRefs = list("the Gateways that it belongs to, whose listeners have the certificates", { minItems: 1 });
/** An Ingress or an HTTPRoute in front of a Service. */
const routes = (what: string) => ({
  ingress: Type.Object(
    {
      enabled: flag(`an Ingress with TLS before ${what}`),
      host: text("its host", { default: "", pattern: hostName }),
      ...ingressFields,
    },
    strict,
  ),
  httpRoute: Type.Object(
    {
      enabled: flag(`an HTTPRoute of the Gateway API 1.2 or later before ${what}`),
      host: text("its host", { default: "", pattern: hostName }),
      parentRefs,
    },
    strict,
  ),
});

export const valuesSchema: TSchema = Type.Object(
  {
    namespace: Type.Object(
      {
        name: text("where operator, edge and instances live", { default: "tenancy", ...namespaceName }),
        create: flag(
          "make the namespace, and those of builds and of keys, with the labels that hold pods to their limits",
          true,
        ),
        podSecurity: Type.Unsafe({
          ...{ type: "string", enum: ["baseline", "restricted"], default: "baseline" },
          description:
            "its level of Pod Security; `restricted` where no image runs as root. With egress it is privileged",
        }),
      },
      strict,
    ),
    crds: Type.Object(
      { install: flag("install and upgrade the four kinds; false for a second release", true) },
      strict,
    ),
    images: Type.Object(
      {
        operator: text("the operator's image", { minLength: 1 }),
        edge: text("the edge's image", { minLength: 1 }),
        egressProxy: text("the image of the egress proxy, beside instances with an allowlist", { minLength: 1 }),
        pullPolicy: Type.Unsafe({
          ...{ type: "string", enum: ["", "Always", "IfNotPresent", "Never"], default: "" },
          description: "`Always`, `IfNotPresent` or `Never`; Kubernetes' own rule where empty",
        }),
        pullSecrets: list("Secrets to pull those of operator and edge with, as `- name: …`", { default: [] }),
      },
      strict,
    ),
    apiKey: Type.Object(
      {
        secretName: text(
          "the Secret with the API key, which you make; under a name of your own, label it `tenancy.dev/use=none`",
          { pattern: objectName },
        ),
        secretKey: text("its key in that Secret", { minLength: 1 }),
      },
      strict,
    ),
    env: environment("operator and edge"),
    nodeSelector: map("of the pods of operator and edge", { default: {} }),
    tolerations: list("of the pods of operator and edge", { default: [] }),
    hostAliases: list("names that the pods of operator and edge know beside DNS", { default: [] }),
    operator: Type.Object(program("the operator"), strict),
    edge: Type.Object(
      {
        split: flag("API and gateway as two Deployments: only the gateway reads Secrets"),
        ...program("the edge"),
        ...routes("the API"),
      },
      strict,
    ),
    gateway: Type.Object({ ...program("the gateway, with `edge.split`"), ...routes("the gateway's webhooks") }, strict),
    frontDoor: Type.Object(
      {
        enabled: flag("instances at addresses of their own (docs/how-to/give-tenants-urls.md)"),
        domain: text("the domain below which they are", { default: "", pattern: hostName }),
        trusted: text("networks of trusted load balancers, separated by commas", { default: "" }),
        api: text(
          "where the API is, for E2B's SDKs; where empty, commands and files of sandboxes are not reached here",
        ),
        public: flag("wake sleeping instances of workloads with `expose: public`"),
        ...program("the front door"),
        ingress: Type.Object(
          { enabled: flag("a wildcard Ingress with TLS before the front door"), ...ingressFields },
          strict,
        ),
        httpRoute: Type.Object(
          { enabled: flag("a wildcard HTTPRoute of the Gateway API 1.2 or later before the front door"), parentRefs },
          strict,
        ),
      },
      strict,
    ),
    networkPolicies: Type.Object({ enabled: flag("network policies of operator and edge", true) }, strict),
    podServiceAccounts: text("ServiceAccounts that workloads may give to instances, separated by commas"),
    admission: Type.Object(
      {
        enabled: flag("policies that hold every pod of the namespace to the hardened settings; Kubernetes 1.30"),
        policies: flag("the policies themselves, which are the cluster's; false for a second release", true),
        jobControllers: text("accounts that make the pods of builds' Jobs, separated by spaces", {
          default: JOB_CONTROLLERS,
        }),
      },
      strict,
    ),
    egress: Type.Object(
      { enabled: flag("network.allowlist and network.credentials; beside it take admission") },
      strict,
    ),
    builds: Type.Object(
      {
        enabled: flag("images built in the cluster (docs/how-to/set-up-builds.md)"),
        namespace: text("where they are built", { default: "tenancy-builds", ...namespaceName }),
        registry: text("`host/prefix` that images are pushed to", { default: "" }),
        registrySecret: text("a Secret of that namespace, to push with", { default: "" }),
        pullSecret: text("a Secret of the namespace of instances, to pull with", { default: "" }),
      },
      strict,
    ),
    keys: Type.Object(
      {
        enabled: flag("keys with a role (docs/how-to/give-keys.md)"),
        namespace: text("where they are, and nothing else", namespaceName),
      },
      strict,
    ),
    serviceAccounts: Type.Object(
      { enabled: flag("ServiceAccounts as callers of the API (docs/how-to/call-from-the-cluster.md)") },
      strict,
    ),
    nodes: Type.Object(
      {
        enabled: flag(
          "the operator watches nodes, for their zones (docs/how-to/spread-over-zones.md) and for images that are pulled ahead (docs/how-to/pull-images-ahead.md)",
        ),
      },
      strict,
    ),
    snapshots: Type.Object(
      {
        store: text("`volume`, or a bucket as `s3://bucket/prefix` (docs/how-to/store-files-in-a-bucket.md)", {
          ...{ default: "volume", pattern: "^(volume|s3://[a-z0-9][a-z0-9.-]+(/.*)?)$" },
        }),
        size: text("size of the volume; `10Gi` where empty", { default: "" }),
        storageClass: text("class of the volume; the cluster's default where empty", { default: "" }),
        region: text("the bucket's region"),
        endpoint: text("another server than AWS, whose port a network policy opens", {
          default: "",
          pattern: "^(https?://.+)?$",
        }),
      },
      strict,
    ),
    quota: Type.Object(
      {
        enabled: flag("a ResourceQuota and a LimitRange for the namespace"),
        hard: map("what all pods together may have", { minProperties: 1, additionalProperties: quantity }),
        limits: list("what one container may have", { minItems: 1 }),
      },
      strict,
    ),
    priority: Type.Object(
      {
        enabled: flag("a PriorityClass for operator and edge"),
        value: Type.Integer({ minimum: -1_000_000_000, maximum: 1_000_000_000, description: "its priority" }),
      },
      strict,
    ),
    flowControl: Type.Object(
      {
        enabled: flag("a share of the API server for operator and edge; Kubernetes 1.29"),
        shares: Type.Integer({ minimum: 0, description: "how large, beside the other priority levels' shares" }),
      },
      strict,
    ),
    monitoring: Type.Object(
      {
        enabled: flag("what the Prometheus Operator scrapes, alerts and a Grafana board"),
        interval: text("how often it scrapes", { pattern: "^[0-9]+(ms|s|m)$" }),
        labels: map("labels by which it finds them, such as `release: prometheus`", {
          default: {},
          additionalProperties: { type: "string" },
        }),
      },
      strict,
    ),
    sink: Type.Object(
      {
        enabled: flag("events to a sink (docs/how-to/send-events.md)"),
        address: text("its address", { pattern: "^https?://.+" }),
        events: text("which it gets, separated by commas; all but `audit` by default", { default: "" }),
        secretName: text("a Secret whose keys `secret` and `token` sign and authorize the requests, if it is there"),
        namespace: text("its namespace, which a network policy opens", namespaceName),
        port: Type.Integer({ minimum: 1, maximum: 65_535, description: "its port" }),
      },
      strict,
    ),
    traces: Type.Object(
      {
        enabled: flag("traces to an OpenTelemetry collector"),
        endpoint: text("its address, OTLP over HTTP", { pattern: "^https?://.+" }),
        headersSecret: text("a Secret whose key `headers` has the headers of exports", { default: "" }),
        namespace: text("its namespace, which a network policy opens", namespaceName),
        port: Type.Integer({ minimum: 1, maximum: 65_535, description: "its port" }),
      },
      strict,
    ),
  },
  { $schema: "http://json-schema.org/draft-07/schema#", title: "Values of tenancy's chart", ...strict },
);
