import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse, parseAllDocuments } from "yaml";
import { loadConfig } from "../../../edge/config.ts";
import { readAddress } from "../../../edge/proxy/entry/address.ts";
import { operatorConfig } from "../../../operator/config.ts";

const test = suite("the Deployments in manifests/");
const folder = join(import.meta.dirname, "../../../manifests");

interface ProbedPort {
  httpGet: { path: string; port: string };
}

interface Container {
  env: { name: string; value?: string; valueFrom?: unknown }[];
  ports: { name: string; containerPort: number }[];
  startupProbe: ProbedPort;
  livenessProbe: ProbedPort;
  readinessProbe: ProbedPort;
  lifecycle?: object;
}

interface Read {
  kind: string;
  metadata: { name: string };
  spec: {
    template: { spec: { serviceAccountName: string; terminationGracePeriodSeconds: number; containers: [Container] } };
  };
}

/** The one Deployment in a file. */
function deployment(file: string) {
  const documents = parseAllDocuments(readFileSync(join(folder, file), "utf8")).map((one) => one.toJS() as Read);
  const found = documents.find(({ kind }) => kind === "Deployment");
  if (found === undefined) throw new Error(`${file} has no Deployment`);
  const { spec } = found.spec.template;
  const [container] = spec.containers;
  const fromCluster: Record<string, string> = {
    TENANCY_NAMESPACE: "elsewhere",
    TENANCY_API_KEY: "key",
    TENANCY_PROXY_DOMAIN: "apps.example.com",
  };
  const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value ?? fromCluster[name]]));
  return { spec, container, env };
}

function portNamed(container: Container, name: string): number | undefined {
  return container.ports.find((port) => port.name === name)?.containerPort;
}

function assertProbed(container: Container, port: number | undefined): void {
  for (const [probe, path] of [
    ["startupProbe", "/healthz"],
    ["livenessProbe", "/healthz"],
    ["readinessProbe", "/readyz"],
  ] as const) {
    assert.is(container[probe].httpGet.path, path);
    assert.is(portNamed(container, container[probe].httpGet.port), port);
  }
}

test("the operator is probed where it listens, in its own namespace", () => {
  const { container, env } = deployment("base/operator.yaml");
  const { listen, namespace } = operatorConfig(env);
  assert.is(namespace, "elsewhere");
  assert.is(listen?.hostname, "0.0.0.0");
  assertProbed(container, listen?.port);
});

for (const [file, account, roles] of [
  ["base/edge.yaml", "tenancy-edge", ["api", "gateway"]],
  ["components/split-edge/gateway.yaml", "tenancy-gateway", ["gateway"]],
  ["components/front-door/proxy.yaml", "tenancy-proxy", ["proxy"]],
] as const) {
  test(`${file}: the edge is probed where it listens, and has its roles`, () => {
    const { spec, container, env } = deployment(file);
    const config = loadConfig(env);
    assert.is(spec.serviceAccountName, account);
    assert.equal([...config.roles], roles);
    assert.is(config.namespace, "elsewhere");
    const isProxy = config.roles.has("proxy");
    const { port } = isProxy ? config.proxy.listen : config.listen;
    assert.is(port, portNamed(container, "http"));
    if (isProxy) assert.is(config.listen.hostname, "127.0.0.1", "the API is not for visitors");
    assertProbed(container, config.metricsListen?.port);
    // A stop lets calls end for 35 s behind its delay, and needs some 5 s for what it has yet to write.
    assert.ok(config.stopDelayMs >= 5000);
    assert.ok(spec.terminationGracePeriodSeconds * 1000 >= config.stopDelayMs + 45_000);
    assert.is(container.lifecycle, undefined, "no command of the image is needed");
  });

  test(`${file}: without the key from the Secret the edge does not start`, () => {
    const { TENANCY_API_KEY, ...rest } = deployment(file).env;
    assert.is(TENANCY_API_KEY, "key");
    assert.throws(() => loadConfig(rest), /TENANCY_API_KEY is unset/);
  });
}

test("the front door passes requests to the daemon of a sandbox on to the Service of the API", () => {
  const documents = (file: string) =>
    parseAllDocuments(readFileSync(join(folder, file), "utf8")).map((one) => one.toJS() as Record<string, unknown>);
  const config = documents("components/front-door/proxy.yaml").find(({ kind }) => kind === "ConfigMap");
  const services = documents("base/edge.yaml").filter(({ kind }) => kind === "Service") as unknown as {
    metadata: { name: string };
    spec: { ports: { port: number }[] };
  }[];
  const addresses = services.flatMap(({ metadata, spec }) => spec.ports.map(({ port }) => `${metadata.name}:${port}`));
  const { api = "" } = (config as { data: Record<string, string> }).data;
  assert.ok(addresses.includes(api), api);
  const { env } = deployment("components/front-door/proxy.yaml");
  const { proxy } = loadConfig({ ...env, TENANCY_PROXY_API: api });
  assert.is(`${proxy.api?.hostname}:${proxy.api?.port}`, api);
});

test("the front door is reached from outside by each of its forms of address", () => {
  const [ingress, route] = ["ingress", "httproute"].map((kind) =>
    parse(readFileSync(join(folder, `components/front-door-${kind}/${kind}.yaml`), "utf8")),
  );
  const { tls, rules } = ingress.spec as { tls: { hosts: string[] }[]; rules: { host: string; http: object }[] };
  const domain = "apps.example.com";
  for (const hosts of [rules.map(({ host }) => host), tls.flatMap((one) => one.hosts), route.spec.hostnames]) {
    const asked = hosts.map((host: string) => host.replace("*", "app--alice"));
    const forms = asked.map((host: string) => {
      const head = { host, target: "/t/alice/app/", fields: [] };
      return readAddress(head, domain, { hasWorkload: () => true })?.form;
    });
    assert.equal(forms, ["host", "path"]);
  }
  assert.equal(new Set(rules.map(({ http }) => JSON.stringify(http))).size, 1);
});

test.run();
