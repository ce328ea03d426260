// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { endpointPort, servedPort, withDefaults } from "../../../crds/defaults.ts";

const image = { ref: "a/b:1" };

test("withDefaults: gives the defaults to the smallest workload", () => {
  assert.equal(withDefaults({ image }), {
    image,
    resources: { vcpus: 1, memoryMb: 512, diskGb: 1 },
    network: { access: "none", allowlist: [], credentials: [], ports: [], portNames: {}, expose: "none" },
    idle: { action: "hibernate", countBackgroundProcesses: false },
    filesystem: { overlayDirs: [], saveWhileRunning: false, checkpointSeconds: 300, saveGraceSeconds: 120 },
    volumes: [],
    entrypoint: { env: {}, envFrom: [], start: "Warm", stopGraceSeconds: 20 },
    podLabels: {},
    podAnnotations: {},
  });
});

test("withDefaults: probes every 10 s with a threshold of 3, on the endpoint's port", () => {
  const health = (spec: Parameters<typeof withDefaults>[0]) => withDefaults(spec).health;
  const byDefault = { readyWhen: "Healthy", intervalSeconds: 10, unhealthyThreshold: 3 };
  assert.is(health({ image }), undefined);
  assert.is(health({ image, network: { ports: [] } }), undefined);
  assert.equal(health({ image, network: { ports: [90] } }), byDefault);
  assert.equal(health({ image, health: {} }), byDefault);
  assert.equal(health({ image, health: { httpGet: {} }, network: { ports: [90] } })?.httpGet, { path: "/", port: 90 });
  assert.equal(health({ image, health: { httpGet: { path: "/ok", port: 91 } }, network: { ports: [90] } })?.httpGet, {
    path: "/ok",
    port: 91,
  });
});

test("withDefaults: a check's own port is the endpoint's where there are no others", () => {
  const health = { tcpSocket: { port: 91 } };
  assert.equal(withDefaults({ image, health }).health?.tcpSocket, { port: 91 });
  assert.equal([endpointPort({ image, health }), endpointPort({ image, health, network: { ports: [90] } })], [91, 90]);
});

test("withDefaults: keeps what the spec says", () => {
  const spec = {
    version: "2",
    image,
    resources: {
      ...{ vcpus: 4, memoryMb: 8, diskGb: 3 },
      requests: { milliCpus: 100, memoryMb: 4 },
      extended: { "nvidia.com/gpu": 1 },
    },
    network: {
      access: "unrestricted" as const,
      allowlist: ["a.b"],
      credentials: [],
      ports: [1],
      portNames: { a: 1 },
      expose: "key" as const,
    },
    idle: { timeoutSeconds: 5, action: "destroy" as const, countBackgroundProcesses: true },
    filesystem: { overlayDirs: ["/data"], saveWhileRunning: true, checkpointSeconds: 0, saveGraceSeconds: 60 },
    volumes: [{ mountPath: "/models", persistentVolumeClaim: { claimName: "models" } }],
    health: {
      readyWhen: "Running" as const,
      intervalSeconds: 1,
      unhealthyThreshold: 1,
      httpGet: { path: "/x", port: 2 },
    },
    entrypoint: {
      cmd: "run",
      args: ["a"],
      env: { A: "b" },
      envFrom: [{ secretRef: { name: "a" } }],
      workdir: "/w",
      start: "OnClaim" as const,
      startTimeoutSeconds: 600,
      stopGraceSeconds: 5,
    },
    runtimeClassName: "kata",
    scheduling: { nodeSelector: { pool: "tenants" } },
    podLabels: { team: "a" },
    podAnnotations: { note: "b" },
    serviceAccountName: "agents",
  };
  assert.equal(withDefaults(spec), spec);
  assert.equal(
    withDefaults(withDefaults({ image, health: { httpGet: {} } })),
    withDefaults({ image, health: { httpGet: {} } }),
  );
});

test("withDefaults: a volume's path has no slash at its end", () => {
  const volumes = [{ mountPath: "/scratch/", emptyDir: { sizeMb: 1 } }];
  assert.equal(withDefaults({ image, volumes }).volumes, [{ mountPath: "/scratch", emptyDir: { sizeMb: 1 } }]);
});

test("withDefaults: milliCpus are a part of a CPU", () => {
  const vcpus = (milliCpus: number) => withDefaults({ image, resources: { milliCpus } }).resources;
  assert.equal([250, 2000].map(vcpus), [
    { vcpus: 0.25, memoryMb: 512, diskGb: 1 },
    { vcpus: 2, memoryMb: 512, diskGb: 1 },
  ]);
});

test("withDefaults: saves a directory once, when another of the list holds it", () => {
  const overlayDirs = ["/data/a/b", "/home/x/", "/data/a", "/data/ab", "/home/x"];
  assert.equal(withDefaults({ image, filesystem: { overlayDirs } }).filesystem.overlayDirs, [
    "/home/x",
    "/data/a",
    "/data/ab",
  ]);
});

test("endpointPort: the first port, else the health port, else 8080", () => {
  const health = { httpGet: { path: "/", port: 9 } };
  assert.is(endpointPort({ image, network: { ports: [7, 8] }, health }), 7);
  assert.is(endpointPort({ image, network: { ports: [] }, health }), 9);
  assert.is(endpointPort({ image, health }), 9);
  assert.is(endpointPort({ image }), 8080);
});

test("servedPort: the endpoint's own port has no number, and what is not listed is refused", () => {
  const spec = { image, network: { ports: [7, 8] }, health: { httpGet: { port: 9 } } };
  assert.equal(
    [undefined, 7, 8, 9].map((port) => servedPort(spec, port)),
    [undefined, undefined, 8, false],
  );
  assert.equal(
    [8080, 80].map((port) => servedPort({ image }, port)),
    [undefined, false],
  );
});

test.run();
