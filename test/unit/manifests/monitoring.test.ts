import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Registry } from "prom-client";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse, parseAllDocuments } from "yaml";
import { systemClock } from "../../../crds/client/clock.ts";
import { createGatewayMetrics } from "../../../edge/gateway/gateway-metrics.ts";
import { createMetrics as createEdgeMetrics } from "../../../edge/metrics.ts";
import { createAccess } from "../../../edge/proxy/access.ts";
import { createMetrics as createOperatorMetrics } from "../../../operator/metrics.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("manifests/components/monitoring");
const root = join(import.meta.dirname, "../../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const component = "manifests/components/monitoring";

interface Alert {
  alert: string;
  expr: string;
  for?: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}
interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  targets?: { refId: string; expr: string }[];
}

const rule = parse(read(`${component}/alerts.yaml`));
const alerts: Alert[] = rule.spec.groups.flatMap((group: { rules: Alert[] }) => group.rules);
const board: { uid: string; panels: Panel[]; templating: { list: { name: string; query: string }[] } } = JSON.parse(
  read(`${component}/board.json`),
);
const queries = board.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

/** What the ServiceMonitor adds, and what Prometheus does. */
const TARGET = ["namespace", "pod", "job", "app_kubernetes_io_name"];
/** Of Prometheus itself. */
const OWN: [string, readonly string[]][] = [
  ["up", TARGET],
  ["ALERTS", ["alertname", "alertstate"]],
];

interface Registered {
  readonly name: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

/** The labels of every series that the programs register, by its name. */
function registeredSeries(): Map<string, readonly string[]> {
  const edge = createEdgeMetrics({ waiting: () => 0, claimLimit: () => 0, listening: () => 0, isFresh: () => true });
  const none = () => 0;
  createGatewayMetrics(edge.registry, { inFlight: none, waiting: none, botsPolled: none, triggers: () => [] });
  createAccess({
    ...{ registry: edge.registry, gauges: { clients: none, pods: none, waking: none } },
    ...{ log: silentLog, logRate: 1, clock: systemClock },
  });
  const merged = Registry.merge([createOperatorMetrics().registry]);
  const all = [...merged.getMetricsAsArray(), ...edge.registry.getMetricsAsArray()] as unknown as Registered[];
  const series = new Map(OWN);
  for (const { name, type, labelNames } of all) {
    const labels = [...labelNames, ...TARGET];
    if (type !== "histogram") series.set(name, labels);
    else for (const part of ["bucket", "count", "sum"]) series.set(`${name}_${part}`, [...labels, "le"]);
  }
  return series;
}

const WORDS = new Set(["and", "or", "unless", "by", "on", "without", "ignoring", "group_left", "group_right", "bool"]);

/** What an expression names that no program tells. */
function unknownNames(expr: string, series: Map<string, readonly string[]>): string[] {
  const unknown: string[] = [];
  const labels = new Set(TARGET);
  const grouping = /\b(?:by|on|group_left)\s*\(([^()]*)\)/g;
  const bare = expr.replace(/\[[^\]]*\]/g, "").replace(grouping, "");
  for (const [, name = "", matchers = ""] of bare.matchAll(/\b([A-Za-z_]\w*)(?:\{([^}]*)\})?(?!\w|\s*\()/g)) {
    if (WORDS.has(name)) continue;
    const known = series.get(name);
    if (known === undefined) {
      unknown.push(name);
      continue;
    }
    for (const label of known) labels.add(label);
    for (const [, label = ""] of matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g))
      if (!known.includes(label)) unknown.push(`${name}{${label}}`);
  }
  for (const [, grouped = ""] of expr.matchAll(grouping)) {
    for (const label of grouped.split(",").map((one) => one.trim()))
      if (label !== "" && !labels.has(label)) unknown.push(`(${label})`);
  }
  return unknown;
}

test("unknownNames finds a metric, a matcher's label and a grouping's label that nobody tells", () => {
  const series = registeredSeries();
  assert.equal(unknownNames("sum by (namespace) (rate(tenancy_nothing_total[5m])) > 0", series), [
    "tenancy_nothing_total",
  ]);
  assert.equal(unknownNames('tenancy_claim_errors_total{why="x"}', series), ["tenancy_claim_errors_total{why}"]);
  assert.equal(unknownNames("sum by (tenant) (tenancy_claim_errors_total)", series), ["(tenant)"]);
  assert.equal(unknownNames("tenancy_claim_seconds > 1", series), ["tenancy_claim_seconds"]);
});

test("alerts and board name series and labels that the programs register, and no others", () => {
  const series = registeredSeries();
  for (const { alert, expr } of alerts) assert.equal(unknownNames(expr, series), [], alert);
  for (const expr of queries) assert.equal(unknownNames(expr.replaceAll("$__rate_interval", "5m"), series), [], expr);
});

test("a reason, source or result that an alert picks is one that is told", async () => {
  const edge = new Registry();
  const none = () => 0;
  createGatewayMetrics(edge, { inFlight: none, waiting: none, botsPolled: none, triggers: () => [] });
  const told = (await createOperatorMetrics().registry.metrics()) + (await edge.metrics());
  let picked = 0;
  for (const { alert, expr } of alerts) {
    for (const [, label, values = ""] of expr.matchAll(/\b(reason|source|result)[=!]~?"([^"]*)"/g)) {
      picked += 1;
      for (const value of values.split("|")) {
        assert.match(told, new RegExp(`\\b${label}="${value}"`), `${alert}: ${value}`);
      }
    }
  }
  assert.ok(picked >= 6);
});

test("each alert says what is so, how bad it is and where its runbook is; each runbook is an alert's", () => {
  const runbooks = [...read("docs/reference/alerts.md").matchAll(/^### (Tenancy\w+)$/gm)].map(([, name = ""]) => name);
  assert.equal([...alerts].map(({ alert }) => alert).sort(), runbooks.sort());
  assert.is(new Set(runbooks).size, alerts.length);
  for (const { alert, labels, annotations, ...rest } of alerts) {
    assert.match(labels.severity ?? "", /^(critical|warning)$/, alert);
    assert.equal(Object.keys(annotations), ["summary", "description", "runbook"], alert);
    // A place in the repository: as `runbook_url` Alertmanager and Grafana would make a link of it that leads nowhere.
    assert.is(annotations.runbook, `docs/reference/alerts.md#${alert.toLowerCase()}`);
    // What the schema of the Prometheus Operator takes.
    assert.match(rest.for ?? "1m", /^\d+[smh]$/, alert);
    assert.equal(
      Object.keys(rest).filter((field) => field !== "for"),
      ["expr"],
      alert,
    );
  }
  assert.equal(
    [rule.apiVersion, rule.kind, Object.keys(rule.spec)],
    ["monitoring.coreos.com/v1", "PrometheusRule", ["groups"]],
  );
});

test("what is scraped are the Services of both programs, by the names that the alerts ask for", () => {
  const monitor = parse(read(`${component}/service-monitor.yaml`));
  assert.equal([monitor.apiVersion, monitor.kind], ["monitoring.coreos.com/v1", "ServiceMonitor"]);
  const [endpoint] = monitor.spec.endpoints;
  const base = parse(read("manifests/base/kustomization.yaml"));
  assert.equal(monitor.spec.selector.matchLabels, base.labels[0].pairs);
  const services = ["operator", "edge"]
    .flatMap((file) => parseAllDocuments(read(`manifests/base/${file}.yaml`)).map((one) => one.toJS()))
    .filter(
      ({ kind, spec }) => kind === "Service" && spec.ports.some(({ name }: { name: string }) => name === endpoint.port),
    )
    .map(({ metadata }) => metadata.name);
  assert.equal(services, ["tenancy-operator-metrics", "tenancy-edge-metrics"]);
  const asked = alerts.flatMap(({ expr }) => [...expr.matchAll(/job=~?"([^"]+)"/g)].map(([, job = ""]) => job));
  assert.ok(asked.length > 0);
  for (const job of asked)
    assert.ok(
      services.some((service) => new RegExp(`^${job}$`).test(service)),
      job,
    );
});

test("each Deployment that is scraped names itself in the label by which alerts tell them apart", () => {
  const monitor = parse(read(`${component}/service-monitor.yaml`));
  assert.equal(monitor.spec.podTargetLabels, ["app.kubernetes.io/name"]);
  const deployments = ["base/operator", "base/edge", "components/split-edge/gateway", "components/front-door/proxy"]
    .flatMap((file) => parseAllDocuments(read(`manifests/${file}.yaml`)).map((one) => one.toJS()))
    .filter(({ kind }) => kind === "Deployment");
  assert.is(deployments.length, 4);
  for (const { metadata, spec } of deployments)
    assert.is(spec.template.metadata.labels["app.kubernetes.io/name"], metadata.name);
});

test("the board's panels have ids of their own and queries, all of one namespace", () => {
  const ids = board.panels.map(({ id }) => id);
  assert.is(new Set(ids).size, ids.length);
  for (const { type, title, targets = [] } of board.panels) {
    assert.is(targets.length === 0, type === "row", title);
    assert.is(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
  }
  for (const expr of queries.filter((one) => !one.includes("ALERTS"))) {
    for (const [series] of expr.matchAll(/\b(?:tenancy|process)_\w+(\{[^}]*\})?/g))
      assert.match(series, 'namespace="$namespace"', expr);
  }
  assert.equal(
    board.templating.list.map(({ name }) => name),
    ["datasource", "namespace"],
  );
  const { configMapGenerator } = parse(read(`${component}/kustomization.yaml`));
  assert.equal(configMapGenerator[0].options.labels, { grafana_dashboard: "1" });
});

test.run();
