import { suite } from "uvu";
import * as assert from "uvu/assert";
import { annotation, label } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { healthOf } from "../../../operator/launcher/health-check.ts";
import { launchedProgram } from "../../../operator/launcher/launch-command.ts";
import { isolationHash, renderPod, templateHash, templateProblem } from "../../../operator/pod/render-pod.ts";

const test = suite("renderPod");
const config = operatorConfig({});
const identity = { name: "inst-a-b-c", labels: { "tenancy.dev/tenant": "a" }, annotations: {} };

function workload(spec: Partial<Workload["spec"]> = {}, status?: Partial<Workload["status"]>): Workload {
  return {
    metadata: { name: "hello", uid: "u" },
    spec: { image: { ref: "i" }, ...spec },
    ...(status !== undefined && { status: { phase: "Ready", ...status } }),
  };
}

const containerOf = (of: Workload, by = config) => renderPod(of, identity, by).spec.containers[0];

test("limits are always set, and requests equal them", () => {
  const { limits, requests } = containerOf(workload())?.resources ?? {};
  assert.equal(limits, { cpu: "1", memory: "512Mi", "ephemeral-storage": "1Gi" });
  assert.equal(requests, { cpu: "1000m", memory: "524288Ki", "ephemeral-storage": "1Gi" });
});

test("requests are divided by the overcommit", () => {
  const by = operatorConfig({ TENANCY_CPU_OVERCOMMIT: "4", TENANCY_MEMORY_OVERCOMMIT: "2" });
  const { limits, requests } = containerOf(workload(), by)?.resources ?? {};
  assert.equal([limits?.cpu, requests?.cpu, requests?.memory], ["1", "250m", "262144Ki"]);
});

test("a part of a CPU is a limit, own requests are taken as they are, and only the program gets extended resources", () => {
  const by = operatorConfig({ TENANCY_CPU_OVERCOMMIT: "4", TENANCY_MEMORY_OVERCOMMIT: "2" });
  const resources = { milliCpus: 250, requests: { memoryMb: 100 }, extended: { "nvidia.com/gpu": 2 } };
  const { containers, initContainers = [] } = renderPod(workload({ resources, tools: true }), identity, by).spec;
  const own = { "ephemeral-storage": "1Gi", "nvidia.com/gpu": "2" };
  assert.equal(containers[0]?.resources, {
    limits: { cpu: "250m", memory: "512Mi", ...own },
    requests: { cpu: "63m", memory: "102400Ki", ...own },
  });
  assert.equal(Object.keys(initContainers[0]?.resources?.limits ?? {}), ["cpu", "memory", "ephemeral-storage"]);
});

test("an image is pulled as the workload says, and one that is built with the operator's Secret", () => {
  const pulled = (image: Workload["spec"]["image"], by = config) => {
    const { imagePullSecrets, containers } = renderPod(workload({ image }, { image: "b" }), identity, by).spec;
    return [containers[0]?.imagePullPolicy, imagePullSecrets];
  };
  const pullSecrets = [{ name: "a" }, { name: "b" }];
  assert.equal(pulled({ ref: "i", pullPolicy: "Never", pullSecrets }), ["Never", pullSecrets]);
  assert.equal(pulled({ ref: "i", pullSecrets: [] }), [undefined, undefined]);
  const builds = operatorConfig({ TENANCY_REGISTRY: "r.example/t", TENANCY_REGISTRY_PULL_SECRET: "built" });
  assert.equal(pulled({ dockerfile: "D", pullPolicy: "Always" }, builds), ["Always", [{ name: "built" }]]);
});

test("scheduling is the pod's own, and its selectors of pods match none of another workload", () => {
  const required = "requiredDuringSchedulingIgnoredDuringExecution";
  const preferred = "preferredDuringSchedulingIgnoredDuringExecution";
  const plain = {
    nodeSelector: { pool: "tenants" },
    tolerations: [{ key: "pool", operator: "Exists" as const }],
    ...{ priorityClassName: "tenants", schedulerName: "own" },
  };
  const nodeAffinity = { [required]: { nodeSelectorTerms: [{}] } };
  const chosen = { key: "claim.tenancy.dev/plan", operator: "Exists" as const };
  const spread = { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" as const };
  const { spec } = renderPod(
    workload({
      scheduling: {
        ...plain,
        affinity: {
          nodeAffinity,
          podAffinity: { [required]: [{ topologyKey: "zone", labelSelector: { matchExpressions: [chosen] } }] },
          podAntiAffinity: { [preferred]: [{ weight: 3, podAffinityTerm: { topologyKey: "node" } }] },
        },
        topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: { a: "b" } } }],
      },
    }),
    identity,
    config,
  );
  const own = { key: "tenancy.dev/workload", operator: "In", values: ["hello"] };
  const { nodeSelector, tolerations, priorityClassName, schedulerName, affinity, topologySpreadConstraints } = spec;
  assert.equal({ nodeSelector, tolerations, priorityClassName, schedulerName }, plain);
  assert.equal(affinity, {
    nodeAffinity,
    podAffinity: { [required]: [{ topologyKey: "zone", labelSelector: { matchExpressions: [chosen, own] } }] },
    podAntiAffinity: {
      [preferred]: [
        { weight: 3, podAffinityTerm: { topologyKey: "node", labelSelector: { matchExpressions: [own] } } },
      ],
    },
  });
  assert.equal(topologySpreadConstraints, [
    { ...spread, labelSelector: { matchLabels: { a: "b" }, matchExpressions: [own] } },
  ]);
});

test("a pod has its workload's labels, annotations and port names, and the service's own keys all the same", () => {
  const pod = renderPod(
    workload({
      podLabels: { team: "a", [label.managed]: "false" },
      podAnnotations: { note: "b", [annotation.workloadUid]: "other" },
      network: { ports: [80, 90], portNames: { metrics: 90 } },
    }),
    identity,
    config,
  );
  const { labels, annotations } = pod.metadata;
  assert.equal([labels?.team, labels?.[label.managed], annotations?.note], ["a", "true", "b"]);
  assert.not(annotations?.[annotation.workloadUid] === "other");
  assert.equal(containerOf(workload({ network: { ports: [80, 90], portNames: { metrics: 90 } } }))?.ports, [
    { containerPort: 80 },
    { containerPort: 90, name: "metrics" },
  ]);
  const all = [workload(), workload({ podLabels: { team: "a" } }), workload({ podAnnotations: { team: "a" } })];
  assert.is(new Set(all.map((one) => templateHash(one, config))).size, 3);
  assert.is(new Set(all.map((one) => isolationHash(one, config))).size, 1);
});

test("what a pod's program can read is part of what isolates the pod", () => {
  const hashes = [
    {},
    { volumes: [{ mountPath: "/keys", secret: { secretName: "keys" } }] },
    { volumes: [{ mountPath: "/keys", secret: { secretName: "others" } }] },
    { entrypoint: { envFrom: [{ secretRef: { name: "keys" } }] } },
    { serviceAccountName: "agents" },
  ].map((spec) => isolationHash(workload(spec), config));
  assert.is(new Set(hashes).size, hashes.length);
});

test("a pod has a token only with an account of its own", () => {
  const account = (spec: Partial<Workload["spec"]>) => {
    const { serviceAccountName, automountServiceAccountToken } = renderPod(workload(spec), identity, config).spec;
    return [serviceAccountName, automountServiceAccountToken];
  };
  assert.equal(account({}), [undefined, false]);
  assert.equal(account({ serviceAccountName: "agents" }), ["agents", true]);
});

test("the first port is the endpoint's, without ports the health port, else 8080", () => {
  const ports = (spec: Partial<Workload["spec"]>) =>
    containerOf(workload(spec))?.ports?.map(({ containerPort }) => containerPort);
  assert.equal(ports({ network: { ports: [9, 7] } }), [9, 7]);
  assert.equal(ports({ health: { httpGet: { port: 81 } } }), [81]);
  assert.equal(ports({}), [8080]);
});

test("health gives a start-up probe once a second and a readiness probe as asked; without it there is none", () => {
  const container = containerOf(
    workload({ health: { intervalSeconds: 30, unhealthyThreshold: 2, httpGet: { path: "/h", port: 81 } } }),
  );
  assert.is(container?.startupProbe?.periodSeconds, 1);
  assert.equal(container?.readinessProbe, {
    httpGet: { path: "/h", port: 81 },
    periodSeconds: 30,
    timeoutSeconds: 5,
    failureThreshold: 2,
  });
  assert.is(container?.livenessProbe, undefined);
  assert.is(containerOf(workload())?.readinessProbe, undefined);
});

test("a command has its time in each probe, also where the probes are close", () => {
  for (const start of ["Warm", "OnClaim"] as const) {
    const container = containerOf(
      workload({
        health: { intervalSeconds: 1, exec: { command: ["check", "$(A)"] } },
        entrypoint: { cmd: "run", start, startTimeoutSeconds: 600 },
      }),
    );
    const { startupProbe, readinessProbe } = container ?? {};
    assert.equal([startupProbe?.timeoutSeconds, readinessProbe?.timeoutSeconds], [5, 5]);
    assert.is(startupProbe?.failureThreshold, 660);
    assert.is(startupProbe?.exec?.command?.at(-1), "$$(A)");
  }
});

test("an instance that is ready when its program runs has no probe, whatever its ports", () => {
  const container = containerOf(workload({ network: { ports: [99] }, health: { readyWhen: "Running" } }));
  assert.equal([container?.startupProbe, container?.readinessProbe], [undefined, undefined]);
});

test("a port without health has the first one looked at: ready is what takes connections there", () => {
  const container = containerOf(workload({ network: { ports: [99, 98] } }));
  assert.equal([container?.startupProbe?.tcpSocket, container?.startupProbe?.periodSeconds], [{ port: 99 }, 1]);
  assert.equal([container?.readinessProbe?.tcpSocket, container?.readinessProbe?.periodSeconds], [{ port: 99 }, 10]);
  assert.is(containerOf(workload({ network: { ports: [] } }))?.readinessProbe, undefined);
});

test("health without httpGet looks whether the endpoint's port takes connections", () => {
  assert.equal(containerOf(workload({ health: {}, network: { ports: [99] } }))?.readinessProbe?.tcpSocket, {
    port: 99,
  });
});

test("a launcher whose program has no check is looked at until it has started, and not again and again", () => {
  const entrypoint = { cmd: "run", start: "OnClaim" as const };
  const unchecked: Partial<Workload["spec"]>[] = [{}, { network: { ports: [81] }, health: { readyWhen: "Running" } }];
  for (const spec of unchecked) {
    const { startupProbe, readinessProbe } = containerOf(workload({ entrypoint, ...spec })) ?? {};
    assert.equal([startupProbe?.exec !== undefined, readinessProbe], [true, undefined]);
  }
});

test("runAsNonRoot is left out only where the kubelet has refused the image", () => {
  assert.is(containerOf(workload())?.securityContext?.runAsNonRoot, true);
  const rooted = containerOf(workload({}, { runsAsRoot: true }))?.securityContext;
  assert.is(rooted?.runAsNonRoot, undefined);
  assert.equal([rooted?.allowPrivilegeEscalation, rooted?.capabilities], [false, { drop: ["ALL"] }]);
});

test("the template hash is the pod's, tells templates apart, and does not depend on who the pod is for", () => {
  const one = workload();
  assert.is(
    renderPod(one, identity, config).metadata.annotations?.["tenancy.dev/template-hash"],
    templateHash(one, config),
  );
  assert.is(templateHash(workload(), config), templateHash(workload(), config));
  assert.is.not(templateHash(workload(), config), templateHash(workload({ image: { ref: "j" } }), config));
  assert.is.not(templateHash(workload(), config), templateHash(workload({}, { runsAsRoot: true }), config));
});

test("the entrypoint's parts are taken over as they are", () => {
  const container = containerOf(
    workload({ entrypoint: { cmd: "/bin/x", args: ["a b", "$(c)"], env: { K: "v" }, workdir: "/w" } }),
  );
  assert.equal(
    [container?.command, container?.args, container?.env, container?.workingDir],
    [["/bin/x"], ["a b", "$(c)"], [{ name: "K", value: "v" }], "/w"],
  );
});

const proxied = (network: Workload["spec"]["network"], more: Partial<Workload["spec"]> = {}) =>
  workload({ network: { access: "restricted", ...network }, ...more });
const withProxy = operatorConfig({ TENANCY_PROXY_IMAGE: "proxy:1" });

test("the launcher runs the program of a workload with files that is known, and nothing else does", () => {
  const filesystem = { overlayDirs: ["/data"] };
  const entrypoint = {
    image: "r/i:1",
    digest: "sha256:d",
    command: ["run", "$HOME"],
    args: ["-x", "$(X)"],
    observedGeneration: 1,
  };
  const image = { ref: "r/i:1" };
  const rendered = (spec: Partial<Workload["spec"]>, status: Partial<Workload["status"]> = { entrypoint }) => {
    const { spec: pod } = renderPod(workload({ image, filesystem, ...spec }, status), identity, config);
    const { program, args, stopGraceSeconds } = launchedProgram(pod) ?? {};
    const { containers, terminationGracePeriodSeconds } = pod;
    return [program, args, stopGraceSeconds, containers[0]?.image, terminationGracePeriodSeconds];
  };
  const pinned = "r/i:1@sha256:d";
  // Kubernetes makes one dollar of two, and replaces variables of a pod's command alone.
  assert.equal(rendered({}), ["run", ["$$HOME", "-x", "$$(X)"], 20, pinned, 120]);
  assert.equal(rendered({ entrypoint: { args: ["$(Y)"] } }), ["run", ["$$HOME", "$(Y)"], 20, pinned, 120]);
  const own = { cmd: "serve", args: ["a"], stopGraceSeconds: 5 };
  assert.equal(rendered({ entrypoint: own }), ["serve", ["a"], 5, "r/i:1", 120]);
  assert.equal(rendered({ filesystem: { ...filesystem, saveGraceSeconds: 60 } })[4], 60);
  const none = [undefined, undefined, undefined, "r/i:1", 10];
  assert.equal(rendered({ filesystem: { ...filesystem, saveWhileRunning: true } }), none);
  assert.equal(rendered({ filesystem: { overlayDirs: [] } }), none);
  assert.equal(rendered({}, { entrypoint: { ...entrypoint, image: "r/i:2" } }), none);
  assert.equal(rendered({}, { entrypoint: { ...entrypoint, command: [], args: [] } }), none);
  assert.equal(rendered({ entrypoint: { cmd: "a=b" } }), none);
});

test("a pod whose program starts with its claim is checked from inside, and waits for a save only with files", () => {
  const entrypoint = { cmd: "run", start: "OnClaim" as const };
  const rendered = (spec: Partial<Workload["spec"]>) => {
    const { spec: pod } = renderPod(workload({ entrypoint, ...spec }), identity, config);
    const { startsOnClaim, keepsFiles } = launchedProgram(pod) ?? {};
    return [startsOnClaim, keepsFiles, pod.terminationGracePeriodSeconds, healthOf(pod)];
  };
  assert.equal(rendered({}), [true, false, 10, {}]);
  assert.equal(rendered({ filesystem: { overlayDirs: ["/data"] } }), [true, true, 120, {}]);
  assert.equal(rendered({ network: { ports: [81] } }), [true, false, 10, { port: 81 }]);
  assert.equal(rendered({ health: { httpGet: { path: "/x", port: 82 } } })[3], { port: 82, path: "/x" });
  assert.equal(rendered({ network: { ports: [81] }, health: { readyWhen: "Running" } })[3], { isUnproven: true });
  // Kubernetes makes one `$` of two, and replaces variables; a request has no other letters.
  assert.equal(rendered({ health: { tcpSocket: { port: 83 } } })[3], { port: 83 });
  const command = ["check", "", "$(HOME)", "$$"];
  assert.equal(rendered({ health: { exec: { command } } })[3], { command });
  const odd = rendered({ health: { httpGet: { path: "/$(HOME)/$$/ä b%20", port: 82 } } })[3];
  assert.equal(odd, { port: 82, path: "/$(HOME)/$$/%C3%A4%20b%20" });
  const unknown = workload({ entrypoint: { start: "OnClaim" } });
  assert.match(templateProblem(unknown, config) ?? "", /set entrypoint\.cmd/);
});

test("a restricted workload with an allowlist gets the proxy before its own container, and the redirect before both", () => {
  const pod = renderPod(proxied({ allowlist: ["a.b"] }), identity, withProxy);
  assert.equal(
    pod.spec.containers.map(({ name, image }) => [name, image]),
    [
      ["tenancy-egress", "proxy:1"],
      ["workload", "i"],
    ],
  );
  assert.equal(
    pod.spec.initContainers?.map(({ name }) => name),
    ["tenancy-redirect"],
  );
  assert.is(pod.metadata.annotations?.["kubectl.kubernetes.io/default-container"], "workload");
  for (const network of [{ access: "restricted" as const }, { access: "none" as const, allowlist: ["a.b"] }]) {
    const plain = renderPod(workload({ network }), identity, withProxy);
    assert.equal([plain.spec.containers.length, plain.spec.initContainers], [1, undefined]);
  }
});

test("with snapshot tools there is one init container, and a second where files are restored", () => {
  const saved = proxied({ allowlist: ["a.b"] }, { filesystem: { overlayDirs: ["/data"] } });
  const names = (restoreAs?: { uid: number; gid: number }) =>
    renderPod(saved, identity, withProxy, { restoreAs }).spec.initContainers?.map(({ name }) => name);
  assert.equal(names(), ["tenancy-redirect"]);
  assert.equal(names({ uid: 7, gid: 7 }), ["tenancy-redirect", "tenancy-tools"]);
});

test("the workload's own variables win over those of the trust bundle", () => {
  const credentials = [
    { domain: "a.b", headers: [{ name: "X", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }] },
  ];
  const of = proxied({ credentials }, { entrypoint: { env: { SSL_CERT_FILE: "/mine" } } });
  const { env } = renderPod(of, identity, withProxy).spec.containers[1] ?? {};
  assert.equal(
    env?.filter(({ name }) => name === "SSL_CERT_FILE"),
    [{ name: "SSL_CERT_FILE", value: "/mine" }],
  );
  assert.ok(env?.some(({ name, value }) => name === "CURL_CA_BUNDLE" && value === "/.tenancy-trust/ca-bundle.pem"));
});

test("each pod's proxy has a user of its own, which the template hash leaves out with the allowlist", () => {
  const [one, other] = ["a.b", "c.d"].map((name) => proxied({ allowlist: [name] }));
  assert.ok(one && other);
  const uids = [1, 2].map(() => renderPod(one, identity, withProxy).spec.containers[0]?.securityContext?.runAsUser);
  assert.is.not(uids[0], uids[1]);
  assert.is(templateHash(one, withProxy), templateHash(other, withProxy));
  assert.is.not(templateHash(one, withProxy), templateHash(workload({ network: { access: "restricted" } }), withProxy));
});

test("the isolation hash is the pod's, and differs where the isolation does, not where its program alone does", () => {
  const isolation = (of: Workload) => isolationHash(of, withProxy);
  const { annotations } = renderPod(workload(), identity, withProxy).metadata;
  assert.is(annotations?.["tenancy.dev/isolation"], isolation(workload()));
  const header = (key: string) => ({ name: "a", valueFrom: { secretKeyRef: { name: "s", key } } });
  const credential = (domain: string, key: string) => [{ domain, headers: [header(key)] }];
  const distinct = [
    workload(),
    workload({ runtimeClassName: "gvisor" }),
    workload({ scheduling: { nodeSelector: { pool: "a" } } }),
    workload({ scheduling: { tolerations: [{ key: "a" }] } }),
    workload({ entrypoint: { cmd: "run", start: "OnClaim" } }),
    workload({}, { runsAsRoot: true }),
    proxied({ allowlist: ["a.b"] }),
    proxied({ allowlist: ["a.b"], credentials: credential("a.b", "k") }),
    proxied({ allowlist: ["a.b"], credentials: credential("a.b", "l") }),
    proxied({ allowlist: ["a.b"], credentials: credential("c.d", "k") }),
  ].map(isolation);
  assert.is(new Set(distinct).size, distinct.length);
  assert.is(isolation(workload({ image: { ref: "j" }, entrypoint: { env: { A: "b" } } })), isolation(workload()));
  assert.is(isolation(workload({ scheduling: { priorityClassName: "a" } })), isolation(workload()));
  assert.is(isolation(proxied({ allowlist: ["c.d"] })), isolation(proxied({ allowlist: ["a.b"] })));
});

test("a workload that no pod can be rendered of has no template, and says why", () => {
  const of = proxied({ allowlist: ["a.b"] });
  assert.equal([templateHash(of, config), isolationHash(of, config)], [undefined, undefined]);
  assert.match(templateProblem(of, config) ?? "", /no image for its proxy/);
  assert.is(templateProblem(workload(), config), undefined);
});

test("without an image for the proxy no pod is rendered without it", () => {
  assert.throws(() => renderPod(proxied({ allowlist: ["a.b"] }), identity, config), /there is no image for its proxy/);
});

test("a pod that waits for files has the template hash of its workload, and says what a release must keep", () => {
  const filesystem = { overlayDirs: ["/data"], preSave: { command: ["sync"] } };
  const keeps = workload({ filesystem, resources: { diskGb: 3 } });
  const [plain, waiting] = [undefined, { uid: 7, gid: 8 }].map((restoreAs) =>
    renderPod(keeps, identity, config, { restoreAs }),
  );
  const hash = templateHash(keeps, config);
  for (const pod of [plain, waiting]) {
    const { annotations } = pod?.metadata ?? {};
    assert.is(annotations?.["tenancy.dev/template-hash"], hash);
    assert.is(annotations?.["tenancy.dev/overlay-dirs"], '["/data"]');
    assert.is(annotations?.["tenancy.dev/disk-gb"], "3");
    const preSave = { command: ["sync"], timeoutSeconds: 30, onError: "Fail" };
    assert.equal(JSON.parse(annotations?.["tenancy.dev/pre-save"] ?? ""), preSave);
  }
  assert.not.equal(waiting?.spec.initContainers, plain?.spec.initContainers);
  assert.equal(waiting?.spec.containers, plain?.spec.containers);
  assert.is.not(templateHash(workload({ filesystem: { ...filesystem, overlayDirs: ["/other"] } }), config), hash);
  const without = workload({ filesystem: { overlayDirs: ["/data"] }, resources: { diskGb: 3 } });
  assert.is.not(templateHash(without, config), hash, "a warm pod that would not run preSave is an old one");
  assert.is(renderPod(without, identity, config).metadata.annotations?.["tenancy.dev/pre-save"], undefined);
});

test("an image that is built is known by its digest alone: without one there is no pod", () => {
  const image = { dockerfile: "Dockerfile" };
  const digest = `r.example/built/hello@sha256:${"1".repeat(64)}`;
  assert.throws(() => renderPod(workload({ image }), identity, config), /not built yet/);
  assert.match(templateProblem(workload({ image }), config) ?? "", "not built yet");
  assert.is(containerOf(workload({ image }, { image: digest }))?.image, digest);
  const other = workload({ image }, { image: digest.replace("1", "2") });
  assert.is.not(templateHash(workload({ image }, { image: digest }), config), templateHash(other, config));
  // What was built before is nothing to a workload that names an image.
  assert.is(containerOf(workload({}, { image: digest }))?.image, "i");
});

test("pods of an image that is built pull it with the Secret for that, and no others do", () => {
  const by = operatorConfig({ TENANCY_REGISTRY: "r.example/built", TENANCY_REGISTRY_PULL_SECRET: "pull" });
  const built = workload({ image: { dockerfile: "Dockerfile" } }, { image: "r.example/built/hello@sha256:1" });
  assert.equal(renderPod(built, identity, by).spec.imagePullSecrets, [{ name: "pull" }]);
  assert.is(renderPod(built, identity, config).spec.imagePullSecrets, undefined);
  assert.is(renderPod(workload(), identity, by).spec.imagePullSecrets, undefined);
});

test.run();
