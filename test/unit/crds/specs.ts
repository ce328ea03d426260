/** A spec with one mistake, and who finds it. */
export interface BadSpec {
  /** What is wrong. */
  title: string;
  kind: "workload" | "pool" | "trigger";
  spec: unknown;
  /** Path of the field that every message must name. */
  field: string;
  /** Who refuses it: every API server, those that know CEL rules, or only our own check. @default "schema" */
  refusedBy?: "schema" | "rules" | "us";
}

const image = { ref: "ghcr.io/acme/agent:1.2" };
const secret = { name: "token", key: "value" };
const credential = {
  domain: "api.example.com",
  headers: [{ name: "Authorization", valueFrom: { secretKeyRef: secret } }],
};
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution";
const spread = { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" };
const scheduled = (scheduling: object): object => ({ image, scheduling });
const tolerated = (toleration: object): object => scheduled({ tolerations: [toleration] });
const mounted = (...volumes: object[]): object => ({ image, volumes });
const settings = { mountPath: "/etc/a", configMap: { name: "a" } };
const scalingPool = { workloadRef: "agent", maxSize: 5 };
const webhook = { type: "webhook", workloadRef: "agent", tenant: { from: "user.id" }, config: { path: "/hook" } };
const messenger = { ...webhook, type: "messenger", tenant: { from: "chatId" }, config: { botTokenSecretRef: secret } };
const cron = { ...webhook, type: "cron", tenant: { static: "alice" }, config: { schedule: "0 9 * * 1-5" } };

/** Specs that the spec allows, each of which every check must let through. */
export const goodSpecs: readonly { title: string; kind: BadSpec["kind"]; spec: unknown }[] = [
  { title: "the smallest workload", kind: "workload", spec: { image } },
  { title: "a workload from a build file", kind: "workload", spec: { image: { dockerfile: "./agent/Dockerfile" } } },
  {
    title: "a workload from a ConfigMap's build file",
    kind: "workload",
    spec: { image: { dockerfile: "Dockerfile", context: { configMapRef: { name: "hello" } }, args: { VERSION: "1" } } },
  },
  {
    title: "a workload from a build file in Git",
    kind: "workload",
    spec: {
      image: {
        dockerfile: "Dockerfile",
        context: {
          git: { url: "https://git.example/a/b.git", ref: "v1.2", path: "agent", secretRef: { name: "git" } },
        },
      },
    },
  },
  {
    title: "a workload with every field",
    kind: "workload",
    spec: {
      version: "1.0.0",
      image: {
        ref: `registry.local:5000/a/b_c.d-e/f:V1.2-x@sha256:${"0".repeat(64)}`,
        ...{ pullPolicy: "Always", prePull: true, pullSecrets: [{ name: "registry" }, { name: "registry.2" }] },
      },
      resources: {
        ...{ vcpus: 2, memoryMb: 2048, diskGb: 10 },
        requests: { milliCpus: 2000, memoryMb: 2048 },
        extended: { "nvidia.com/gpu": 1, "example.com/Fast_nic.2": 1_000_000 },
      },
      network: {
        access: "restricted",
        allowlist: ["example.com", "*.Example.org", "xn--bcher-kva.example"],
        credentials: [credential],
        ports: [8080, 9090],
        portNames: { http: 8080, "a-1234567890-bc": 9090 },
        expose: "link",
      },
      idle: { timeoutSeconds: 1800, action: "destroy", countBackgroundProcesses: true },
      filesystem: {
        overlayDirs: ["/home/agent", "/var/lib/a b/.config", "/..data", "/data/"],
        preSave: { command: ["sh", "-c", "sync\nsync"], timeoutSeconds: 600, onError: "Continue" },
      },
      volumes: [
        { mountPath: "/etc/a b", configMap: { name: "a", items: [{ key: "..b", path: ".b..c" }], defaultMode: 0 } },
        { mountPath: "/etc/a-keys/", secret: { secretName: "a.keys", defaultMode: 511 } },
        { mountPath: "/home/agents", persistentVolumeClaim: { claimName: "models" } },
        { mountPath: "/tmp", emptyDir: { sizeMb: 1 } },
        { mountPath: "/opt", image: { reference: "ghcr.io/acme/tools:2", pullPolicy: "Never" } },
      ],
      health: {
        readyWhen: "Healthy",
        intervalSeconds: 5,
        unhealthyThreshold: 2,
        httpGet: { path: "/healthz?full=1", port: 8080 },
      },
      entrypoint: {
        cmd: "/bin/sh",
        args: ["-c", "echo one\necho two"],
        env: { LANG: "C" },
        envFrom: [{ prefix: "A_", configMapRef: { name: "a" } }, { secretRef: { name: "b" } }],
        workdir: "/",
      },
      runtimeClassName: "gvisor",
      scheduling: {
        nodeSelector: { pool: "", "example.com/pool": "tenants" },
        tolerations: [
          { key: "spot", effect: "PreferNoSchedule" },
          { key: "node-role.kubernetes.io/gpu", operator: "Exists", value: "" },
          { key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute", tolerationSeconds: 0 },
        ],
        affinity: {
          nodeAffinity: {
            [REQUIRED]: {
              nodeSelectorTerms: [{}, { matchExpressions: [{ key: "a", operator: "Exists", values: [] }] }],
            },
            [PREFERRED]: [
              { weight: 100, preference: { matchFields: [{ key: "metadata.name", operator: "In", values: ["n.1"] }] } },
              { weight: 1, preference: { matchExpressions: [{ key: "a/b", operator: "Lt", values: ["08"] }] } },
            ],
          },
          podAffinity: { [REQUIRED]: [{ topologyKey: "zone" }] },
          podAntiAffinity: {
            [PREFERRED]: [{ weight: 2, podAffinityTerm: { topologyKey: "zone", labelSelector: {} } }],
          },
        },
        topologySpreadConstraints: [
          { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule", minDomains: 3 },
          {
            ...{ maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway", nodeTaintsPolicy: "Honor" },
            labelSelector: { matchExpressions: [{ key: "a", operator: "NotIn", values: ["b", ""] }] },
          },
        ],
        priorityClassName: "not-system-x",
        schedulerName: "my.scheduler",
      },
      podLabels: { team: "a", "example.com/cost.centre": "", "mykubernetes.io/x": "1" },
      podAnnotations: {
        "prometheus.io/port": "9090",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        note: "any\ntext",
      },
      serviceAccountName: "agents",
    },
  },
  {
    title: "less than a CPU, and requests of less than the defaults",
    kind: "workload",
    spec: { image, resources: { milliCpus: 250, requests: { milliCpus: 250, memoryMb: 512 } } },
  },
  {
    title: "lists without entries under another access",
    kind: "workload",
    spec: { image, network: { access: "unrestricted", allowlist: [], credentials: [] } },
  },
  {
    title: "directories whose names begin alike, and an argument without text",
    kind: "workload",
    spec: { image, filesystem: { overlayDirs: ["/data", "/data-2/", "/dat"], preSave: { command: ["save", ""] } } },
  },
  {
    title: "a program that is told of its claim by a command, whose argument may be empty",
    kind: "workload",
    spec: { image, entrypoint: { start: "Warm", onClaim: { exec: { command: ["told", ""] }, timeoutSeconds: 60 } } },
  },
  {
    title: "a program that is told of its claim by a request, for which it needs no port of its own",
    kind: "workload",
    spec: { image, entrypoint: { onClaim: { httpPost: { path: "/$(id)'" } } } },
  },
  {
    title: "a health check by a command",
    kind: "workload",
    spec: { image, health: { exec: { command: ["test", "", "$(A)"] } }, entrypoint: { startTimeoutSeconds: 86400 } },
  },
  { title: "a health check of a port", kind: "workload", spec: { image, health: { tcpSocket: { port: 65535 } } } },
  {
    title: "a health check and an idle policy without details",
    kind: "workload",
    spec: { image, health: {}, idle: {} },
  },
  { title: "a pool", kind: "pool", spec: { workloadRef: "agent", size: 3, maxFillConcurrency: 2 } },
  { title: "an empty pool", kind: "pool", spec: { workloadRef: "agent", size: 0 } },
  { title: "a pool that scales by itself", kind: "pool", spec: { workloadRef: "agent", maxSize: 5 } },
  {
    title: "a pool that scales by itself with every field",
    kind: "pool",
    spec: {
      ...{ workloadRef: "agent", maxSize: 5, minSize: 0, target: { hitRate: 95 }, maxFillConcurrency: 2 },
      schedule: [
        { cron: "0 8 * * 1-5", timezone: "Europe/Berlin", minSize: 5 },
        { cron: "0 18 * * *", minSize: 0 },
      ],
      scaleDownAfterSeconds: 60,
    },
  },
  { title: "a pool with idle pods", kind: "pool", spec: { ...scalingPool, target: { idlePercent: 20 } } },
  { title: "a pool with a greatest wait", kind: "pool", spec: { ...scalingPool, target: { p99Ms: 2000 } } },
  { title: "a webhook", kind: "trigger", spec: { ...webhook, config: { path: "/hook/a", secretRef: secret } } },
  { title: "a cron that signs", kind: "trigger", spec: { ...cron, signing: { secretRef: secret } } },
  {
    title: "a messenger with every field",
    kind: "trigger",
    spec: {
      ...messenger,
      tenant: { from: "usernameOrId", prefix: "tg-" },
      driver: "driver-b",
      driverOptions: { path: "/x", timeoutSeconds: 60, tokenSecretRef: secret },
      config: {
        botTokenSecretRef: secret,
        updateTypes: ["message", "edited_message"],
        pollTimeoutSeconds: 30,
        apiBaseUrl: "http://127.0.0.1:9000",
      },
      guards: [
        { type: "allowlist", config: { tenantIds: ["Alice", "bob"], denyMessage: "no" } },
        { type: "api", config: { url: "https://guard.example/ask", headers: { Authorization: "Bearer x" } } },
      ],
    },
  },
  {
    title: "a webhook whose claims bring something",
    kind: "trigger",
    spec: {
      ...webhook,
      claim: {
        inputs: { env: { LANG: "de" }, secretRef: { name: "s" }, files: [{ path: "/data/a", content: "b" }] },
        ...{ labels: { team: "red" }, expiresInSeconds: 60 },
      },
    },
  },
  {
    title: "a cron",
    kind: "trigger",
    spec: {
      ...cron,
      config: {
        ...cron.config,
        timezone: "Europe/Berlin",
        catchUpSeconds: 0,
        payload: { deep: { list: [1, null, "x"] } },
      },
    },
  },
];

const git = { url: "https://git.example/a/b.git" };

/** Specs that must be refused. */
export const badSpecs: readonly BadSpec[] = [
  ...workloads([
    ["no image", {}, "spec.image"],
    ["neither ref nor dockerfile", { image: {} }, "spec.image"],
    ["both ref and dockerfile", { image: { ...image, dockerfile: "Dockerfile" } }, "spec.image"],
    ["a number as the image", { image: { ref: 7 } }, "spec.image.ref"],
    ["no source of the context", { image: { dockerfile: "Dockerfile", context: {} } }, "spec.image.context"],
    [
      "two sources of the context",
      { image: { dockerfile: "Dockerfile", context: { configMapRef: { name: "a" }, git } } },
      "spec.image.context",
    ],
    [
      "a branch that is an option",
      { image: { dockerfile: "Dockerfile", context: { git: { ...git, ref: "--upload-pack=x" } } } },
      "spec.image.context.git.ref",
    ],
    [
      "a build argument of 4 KiB",
      { image: { dockerfile: "Dockerfile", args: { A: "a".repeat(4097) } } },
      "spec.image.args.A",
    ],
    ["zero vcpus", { image, resources: { vcpus: 0 } }, "spec.resources.vcpus"],
    ["a word for prePull", { image: { ...image, prePull: "yes" } }, "spec.image.prePull"],
    ["an unknown pull policy", { image: { ...image, pullPolicy: "Sometimes" } }, "spec.image.pullPolicy"],
    ["a pull Secret without a name", { image: { ...image, pullSecrets: [{}] } }, "spec.image.pullSecrets[0].name"],
    [
      "a pull Secret twice",
      { image: { ...image, pullSecrets: [{ name: "a" }, { name: "a" }] } },
      "spec.image.pullSecrets[1]",
    ],
    ["zero thousandths of a CPU", { image, resources: { milliCpus: 0 } }, "spec.resources.milliCpus"],
    ["half a GPU", { image, resources: { extended: { "a.b/c": 0.5 } } }, "spec.resources.extended.a.b/c"],
    ["no GPU", { image, resources: { extended: { "a.b/c": 0 } } }, "spec.resources.extended.a.b/c"],
    ["a node label's value with a space", scheduled({ nodeSelector: { a: "b c" } }), "spec.scheduling.nodeSelector.a"],
    ["a toleration of every taint", tolerated({ operator: "Exists" }), "spec.scheduling.tolerations[0].key"],
    ["a toleration's unknown effect", tolerated({ key: "a", effect: "None" }), "spec.scheduling.tolerations[0].effect"],
    [
      "an affinity without a term",
      scheduled({ affinity: { nodeAffinity: { [REQUIRED]: { nodeSelectorTerms: [] } } } }),
      `spec.scheduling.affinity.nodeAffinity.${REQUIRED}.nodeSelectorTerms`,
    ],
    [
      "a preference without a weight",
      scheduled({ affinity: { podAffinity: { [PREFERRED]: [{ podAffinityTerm: { topologyKey: "a" } }] } } }),
      `spec.scheduling.affinity.podAffinity.${PREFERRED}[0].weight`,
    ],
    [
      "a spread twice",
      scheduled({ topologySpreadConstraints: [spread, spread] }),
      "spec.scheduling.topologySpreadConstraints[1]",
    ],
    [
      "a spread over nothing",
      scheduled({ topologySpreadConstraints: [{ ...spread, topologyKey: undefined }] }),
      "spec.scheduling.topologySpreadConstraints[0].topologyKey",
    ],
    ["half a vcpu", { image, resources: { vcpus: 0.5 } }, "spec.resources.vcpus"],
    ["memory in words", { image, resources: { memoryMb: "512" } }, "spec.resources.memoryMb"],
    ["no disk", { image, resources: { diskGb: 0 } }, "spec.resources.diskGb"],
    ["an unknown access", { image, network: { access: "open" } }, "spec.network.access"],
    ["a domain with a line break", { image, network: { allowlist: ["a.b\nc.d"] } }, "spec.network.allowlist[0]"],
    ["a domain twice", { image, network: { allowlist: ["a.b", "a.b"] } }, "spec.network.allowlist[1]"],
    ["credentials twice", { image, network: { credentials: [credential, credential] } }, "spec.network.credentials[1]"],
    ["an unknown exposure", { image, network: { expose: "all" } }, "spec.network.expose"],
    ["port 0", { image, network: { ports: [0] } }, "spec.network.ports[0]"],
    ["port 65536", { image, network: { ports: [80, 65536] } }, "spec.network.ports[1]"],
    ["an idle time of zero", { image, idle: { timeoutSeconds: 0 } }, "spec.idle.timeoutSeconds"],
    ["an unknown idle action", { image, idle: { action: "sleep" } }, "spec.idle.action"],
    ["a directory twice", { image, filesystem: { overlayDirs: ["/a", "/a"] } }, "spec.filesystem.overlayDirs[1]"],
    [
      "a preSave without a command",
      { image, filesystem: preSaving({ command: [] }) },
      "spec.filesystem.preSave.command",
    ],
    [
      "a request with a line break",
      { image, entrypoint: { onClaim: { httpPost: { path: "/a\r\nHost: b" } } } },
      "spec.entrypoint.onClaim.httpPost.path",
    ],
    [
      "an onClaim that may take an hour",
      { image, entrypoint: { onClaim: { exec: { command: ["a"] }, timeoutSeconds: 3600 } } },
      "spec.entrypoint.onClaim.timeoutSeconds",
    ],
    [
      "a preSave of an hour",
      { image, filesystem: preSaving({ command: ["sync"], timeoutSeconds: 3600 }) },
      "spec.filesystem.preSave.timeoutSeconds",
    ],
    [
      "a preSave that is ignored",
      { image, filesystem: preSaving({ command: ["sync"], onError: "Ignore" }) },
      "spec.filesystem.preSave.onError",
    ],
    ["a probe every 0 s", { image, health: { intervalSeconds: 0 } }, "spec.health.intervalSeconds"],
    ["a probe of port 0", { image, health: { httpGet: { path: "/", port: 0 } } }, "spec.health.httpGet.port"],
    ["a check of no port", { image, health: { tcpSocket: {} } }, "spec.health.tcpSocket.port"],
    ["a check by no command", { image, health: { exec: { command: [] } } }, "spec.health.exec.command"],
    [
      "a start that may take two days",
      { image, entrypoint: { startTimeoutSeconds: 172800 } },
      "spec.entrypoint.startTimeoutSeconds",
    ],
    ["args that are no list", { image, entrypoint: { args: "x" } }, "spec.entrypoint.args"],
    ["a number in the environment", { image, entrypoint: { env: { A: 1 } } }, "spec.entrypoint.env.A"],
    ["a volume of no place", mounted({ configMap: { name: "a" } }), "spec.volumes[0].mountPath"],
    ["two volumes in one place", mounted(settings, settings), "spec.volumes[1]"],
    ["a volume of nothing", mounted({ mountPath: "/a" }), "spec.volumes[0]"],
    ["a volume of two things", mounted({ ...settings, emptyDir: { sizeMb: 1 } }), "spec.volumes[0]"],
    [
      "a volume in memory without a size",
      mounted({ mountPath: "/a", emptyDir: {} }),
      "spec.volumes[0].emptyDir.sizeMb",
    ],
    [
      "a file above its volume",
      mounted({ mountPath: "/a", configMap: { name: "a", items: [{ key: "b", path: ".." }] } }),
      "spec.volumes[0].configMap.items[0].path",
    ],
    [
      "a file that its owner executes as another",
      mounted({ mountPath: "/a", secret: { secretName: "a", defaultMode: 0o4755 } }),
      "spec.volumes[0].secret.defaultMode",
    ],
    ["variables from nowhere", { image, entrypoint: { envFrom: [{ prefix: "A" }] } }, "spec.entrypoint.envFrom[0]"],
    [
      "variables from two objects",
      { image, entrypoint: { envFrom: [{ configMapRef: { name: "a" }, secretRef: { name: "a" } }] } },
      "spec.entrypoint.envFrom[0]",
    ],
    [
      "variables whose names begin with a digit",
      { image, entrypoint: { envFrom: [{ prefix: "1", secretRef: { name: "a" } }] } },
      "spec.entrypoint.envFrom[0].prefix",
    ],
    ["a pod's label of two lines", { image, podLabels: { a: "b\nc" } }, "spec.podLabels.a"],
    ["a number as an annotation", { image, podAnnotations: { a: 1 } }, "spec.podAnnotations.a"],
    ["a name of port 0", { image, network: { ports: [80], portNames: { a: 0 } } }, "spec.network.portNames.a"],
    ["an account in capitals", { image, serviceAccountName: "Agents" }, "spec.serviceAccountName"],
    ["a runtime class in capitals", { image, runtimeClassName: "GVisor" }, "spec.runtimeClassName"],
  ]),
  {
    title: "a header name with a line break",
    kind: "workload",
    spec: {
      image,
      network: { credentials: [{ ...credential, headers: [{ ...credential.headers[0], name: "a\r\nb" }] }] },
    },
    field: "spec.network.credentials[0].headers[0].name",
  },
  {
    title: "a credential without its Secret's key",
    kind: "workload",
    spec: {
      image,
      network: {
        credentials: [{ domain: "a.b", headers: [{ name: "x", valueFrom: { secretKeyRef: { name: "s" } } }] }],
      },
    },
    field: "spec.network.credentials[0].headers[0].valueFrom.secretKeyRef.key",
  },
  ...workloads(
    [
      ["a relative directory", { image, filesystem: { overlayDirs: ["data"] } }, "spec.filesystem.overlayDirs[0]"],
      ["a directory upwards", { image, filesystem: { overlayDirs: ["/a/../b"] } }, "spec.filesystem.overlayDirs[0]"],
      ["the root directory", { image, filesystem: { overlayDirs: ["/"] } }, "spec.filesystem.overlayDirs[0]"],
      ["an image with a space", { image: { ref: "a b" } }, "spec.image.ref"],
      ["an image with a control character", { image: { ref: "a\u0000b" } }, "spec.image.ref"],
      ["a build file of two lines", { image: { dockerfile: "a\nb" } }, "spec.image.dockerfile"],
      [
        "a repository over HTTP",
        { image: { dockerfile: "Dockerfile", context: { git: { url: "http://git.example/a/b" } } } },
        "spec.image.context.git.url",
      ],
      [
        "a repository's address with a password",
        { image: { dockerfile: "Dockerfile", context: { git: { url: "https://u:p@git.example/a/b" } } } },
        "spec.image.context.git.url",
      ],
      ["an address with a scheme", { image, network: { allowlist: ["https://a.b"] } }, "spec.network.allowlist[0]"],
      ["a star alone", { image, network: { allowlist: ["a.b", "*"] } }, "spec.network.allowlist[1]"],
      ["a relative workdir", { image, entrypoint: { workdir: "src" } }, "spec.entrypoint.workdir"],
      [
        "a pull Secret of an image that is built",
        { image: { dockerfile: "Dockerfile", pullSecrets: [{ name: "a" }] } },
        "spec.image",
      ],
      ["two numbers of CPUs", { image, resources: { vcpus: 1, milliCpus: 500 } }, "spec.resources"],
      ["a request above the vcpus", { image, resources: { requests: { milliCpus: 1001 } } }, "spec.resources"],
      [
        "a request above the thousandths",
        { image, resources: { milliCpus: 250, requests: { milliCpus: 251 } } },
        "spec.resources",
      ],
      ["a request above the memory", { image, resources: { requests: { memoryMb: 513 } } }, "spec.resources"],
      ["a resource without a domain", { image, resources: { extended: { gpu: 1 } } }, "spec.resources.extended"],
      [
        "a resource of Kubernetes' own domain",
        { image, resources: { extended: { "x.kubernetes.io/gpu": 1 } } },
        "spec.resources.extended",
      ],
      ["a node label that is none", scheduled({ nodeSelector: { "a/b/c": "" } }), "spec.scheduling.nodeSelector"],
      ["a taint's key that is none", tolerated({ key: "a b" }), "spec.scheduling.tolerations[0].key"],
      [
        "a value of a taint that only has to be there",
        tolerated({ key: "a", operator: "Exists", value: "b" }),
        "spec.scheduling.tolerations[0]",
      ],
      [
        "seconds for a taint that evicts no pod",
        tolerated({ key: "a", effect: "NoSchedule", tolerationSeconds: 1 }),
        "spec.scheduling.tolerations[0]",
      ],
      ...[
        "node-role.kubernetes.io/control-plane",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/unschedulable",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cilium.io/agent-not-ready",
      ].map(
        (key): Row => [
          `a toleration of ${key}`,
          tolerated({ key, effect: "NoExecute" }),
          "spec.scheduling.tolerations[0]",
        ],
      ),
      [
        "pods on a node whose network is not ready",
        tolerated({ key: "node.kubernetes.io/not-ready", operator: "Exists" }),
        "spec.scheduling.tolerations[0]",
      ],
      [
        "the cluster's own priority",
        scheduled({ priorityClassName: "system-node-critical" }),
        "spec.scheduling.priorityClassName",
      ],
      [
        "a comparison with two numbers",
        scheduled({
          affinity: {
            nodeAffinity: {
              [PREFERRED]: [
                { weight: 1, preference: { matchExpressions: [{ key: "a", operator: "Gt", values: ["1", "2"] }] } },
              ],
            },
          },
        }),
        `spec.scheduling.affinity.nodeAffinity.${PREFERRED}[0].preference.matchExpressions[0]`,
      ],
      [
        "a choice without values",
        scheduled({
          affinity: {
            podAntiAffinity: {
              [REQUIRED]: [{ topologyKey: "a", labelSelector: { matchExpressions: [{ key: "a", operator: "In" }] } }],
            },
          },
        }),
        `spec.scheduling.affinity.podAntiAffinity.${REQUIRED}[0].labelSelector.matchExpressions[0]`,
      ],
      [
        "a pod's label that is none",
        scheduled({ topologySpreadConstraints: [{ ...spread, labelSelector: { matchLabels: { "-": "" } } }] }),
        "spec.scheduling.topologySpreadConstraints[0].labelSelector.matchLabels",
      ],
      [
        "a number of places for a spread that holds nothing back",
        scheduled({ topologySpreadConstraints: [{ ...spread, minDomains: 2 }] }),
        "spec.scheduling.topologySpreadConstraints[0]",
      ],
      ["an allowlist under no access", { image, network: { allowlist: ["a.b"] } }, "spec.network.allowlist"],
      [
        "credentials under access none",
        { image, network: { access: "none", credentials: [credential] } },
        "spec.network.credentials",
      ],
      [
        "an allowlist that lets all out",
        { image, network: { access: "unrestricted", allowlist: ["a.b"] } },
        "spec.network.allowlist",
      ],
      [
        "a directory inside another",
        { image, filesystem: { overlayDirs: ["/data/sub", "/data"] } },
        "spec.filesystem.overlayDirs",
      ],
      [
        "a directory twice but for its slash",
        { image, filesystem: { overlayDirs: ["/data", "/data/"] } },
        "spec.filesystem.overlayDirs",
      ],
      ["a volume at the root", mounted({ ...settings, mountPath: "/" }), "spec.volumes[0].mountPath"],
      ["a volume inside another", mounted(settings, { ...settings, mountPath: "/etc/a/b/" }), "spec.volumes"],
      [
        "a volume inside saved files",
        { image, filesystem: { overlayDirs: ["/data/"] }, volumes: [{ ...settings, mountPath: "/data/models" }] },
        "spec",
      ],
      [
        "saved files inside a volume",
        { image, filesystem: { overlayDirs: ["/etc/a/b"] }, volumes: [settings] },
        "spec",
      ],
      [
        "a preSave of no program",
        { image, filesystem: preSaving({ command: ["", "x"] }) },
        "spec.filesystem.preSave.command",
      ],
      [
        "files that are saved while a program runs that starts with its claim",
        { image, filesystem: { saveWhileRunning: true }, entrypoint: { cmd: "run", start: "OnClaim" } },
        "spec",
      ],
      [
        "an onClaim for a program that starts with its claim",
        { image, entrypoint: { cmd: "run", start: "OnClaim", onClaim: { httpPost: { path: "/" } } } },
        "spec.entrypoint",
      ],
      [
        "a health check of an instance that is ready without it",
        { image, health: { readyWhen: "Running", httpGet: {} } },
        "spec.health",
      ],
      ...[
        ...[
          "tenancy.dev/tenant",
          "claim.tenancy.dev/plan",
          "app.kubernetes.io/name",
          "kubernetes.io/ingress-bandwidth",
        ],
        ...["sidecar.istio.io/inject", "k8s.v1.cni.cncf.io/networks", "azure.workload.identity/use", "aadpodidbinding"],
        ...["iam.amazonaws.com/role", "io.katacontainers.config.x", "io.kubernetes.cri-o.userns-mode"],
        ...["cpu-quota.crio.io", "devices.nri.io/pod", "spiffe.io/spire-managed-identity", "dapr.io/enabled"],
      ].flatMap((key): Row[] => [
        [`the label ${key}`, { image, podLabels: { [key]: "a" } }, "spec.podLabels"],
        [`the annotation ${key}`, { image, podAnnotations: { [key]: "a" } }, "spec.podAnnotations"],
      ]),
      ["a pod's label that is none", { image, podLabels: { "a/b/c": "" } }, "spec.podLabels"],
      ...["HTTP", "80", "port-81", "a--b", "-a", "a-", "a234567890123456", "a.b"].map(
        (name): Row => [
          `a port named ${name}`,
          { image, network: { ports: [80], portNames: { [name]: 80 } } },
          "spec.network.portNames",
        ],
      ),
      [
        "a name of a port that is none of its own",
        { image, network: { ports: [80], portNames: { a: 81 } } },
        "spec.network",
      ],
      ["two names of a port", { image, network: { ports: [80], portNames: { a: 80, b: 80 } } }, "spec.network"],
      ["two health checks", { image, health: { httpGet: {}, tcpSocket: { port: 1 } } }, "spec.health"],
      [
        "a command of an instance that is ready without it",
        { image, health: { readyWhen: "Running", exec: { command: ["a"] } } },
        "spec.health",
      ],
      ["a check by no program", { image, health: { exec: { command: ["", "a"] } } }, "spec.health.exec.command"],
      ["an onClaim without a call", { image, entrypoint: { onClaim: {} } }, "spec.entrypoint.onClaim"],
      [
        "an onClaim with two calls",
        { image, entrypoint: { onClaim: { exec: { command: ["a"] }, httpPost: { path: "/" } } } },
        "spec.entrypoint.onClaim",
      ],
      [
        "an onClaim of no program",
        { image, entrypoint: { onClaim: { exec: { command: [""] } } } },
        "spec.entrypoint.onClaim.exec.command",
      ],
      [
        "a preSave where nothing is saved",
        { image, filesystem: { preSave: { command: ["sync"] } } },
        "spec.filesystem",
      ],
      ["arguments for an image that is not built", { image: { ...image, args: { A: "1" } } }, "spec.image"],
      [
        "a preSave without a directory",
        { image, filesystem: { overlayDirs: [], preSave: { command: ["sync"] } } },
        "spec.filesystem",
      ],
    ],
    "rules",
  ),
  ...workloads(
    [
      ["an image in capitals", { image: { ref: "ghcr.io/Acme/agent" } }, "spec.image.ref"],
      ["an image with a scheme", { image: { ref: "https://ghcr.io/a/b" } }, "spec.image.ref"],
      ["an image with an empty tag", { image: { ref: "a/b:" } }, "spec.image.ref"],
      ["a build file upwards", { image: { dockerfile: "../Dockerfile" } }, "spec.image.dockerfile"],
      ["a build file from the root", { image: { dockerfile: "/Dockerfile" } }, "spec.image.dockerfile"],
      [
        "a folder of a repository upwards",
        { image: { dockerfile: "Dockerfile", context: { git: { ...git, path: "a/../.." } } } },
        "spec.image.context.git.path",
      ],
      [
        "a range of commits",
        { image: { dockerfile: "Dockerfile", context: { git: { ...git, ref: "a..b" } } } },
        "spec.image.context.git.ref",
      ],
      ["a build argument with =", { image: { dockerfile: "Dockerfile", args: { "A=B": "1" } } }, "spec.image.args"],
      [
        "an address in the allowlist",
        { image, network: { access: "restricted", allowlist: ["10.0.0.1"] } },
        "spec.network.allowlist[0]",
      ],
      [
        "a directory of the kernel",
        { image, filesystem: { overlayDirs: ["/proc/1"] } },
        "spec.filesystem.overlayDirs[0]",
      ],
      ["a volume of the kernel", mounted({ ...settings, mountPath: "/sys" }), "spec.volumes[0].mountPath"],
      ...["/.tenancy", "/.tenancy-trust/a", "/run/", "/var/run", "/run/tenancy/a"].map(
        (mountPath): Row => [
          `a volume in the pod's own ${mountPath}`,
          mounted({ ...settings, mountPath }),
          "spec.volumes[0].mountPath",
        ],
      ),
      [
        "a volume of no image",
        mounted({ mountPath: "/a", image: { reference: "https://a/b" } }),
        "spec.volumes[0].image.reference",
      ],
      ["an environment name with =", { image, entrypoint: { env: { "A=B": "1" } } }, "spec.entrypoint.env"],
      ["a misspelt field", { image, network: { alowlist: ["a.b"] } }, "spec.network.alowlist"],
    ],
    "us",
  ),
  ...pools([
    ["no workload", { size: 1 }, "spec.workloadRef"],
    ["a greatest size of zero", { workloadRef: "agent", maxSize: 0 }, "spec.maxSize"],
    ["a hit rate above 100", { ...scalingPool, target: { hitRate: 101 } }, "spec.target.hitRate"],
    ["all pods idle", { ...scalingPool, target: { idlePercent: 100 } }, "spec.target.idlePercent"],
    [
      "four fields in a schedule",
      { ...scalingPool, schedule: [{ cron: "0 8 * *", minSize: 1 }] },
      "spec.schedule[0].cron",
    ],
    [
      "a time zone with spaces",
      { ...scalingPool, schedule: [{ cron: "0 8 * * *", timezone: "Europe / Berlin", minSize: 1 }] },
      "spec.schedule[0].timezone",
    ],
    ["a schedule without a size", { ...scalingPool, schedule: [{ cron: "0 8 * * *" }] }, "spec.schedule[0].minSize"],
    ["shrinking at once", { ...scalingPool, scaleDownAfterSeconds: 0 }, "spec.scaleDownAfterSeconds"],
    ["a size below zero", { workloadRef: "agent", size: -1 }, "spec.size"],
    ["nothing at once", { workloadRef: "agent", size: 1, maxFillConcurrency: 0 }, "spec.maxFillConcurrency"],
    ["a workload in capitals", { workloadRef: "Agent", size: 1 }, "spec.workloadRef"],
  ]),
  ...pools(
    [
      ["no size", { workloadRef: "agent" }, "spec"],
      ["two sizes", { ...scalingPool, size: 1 }, "spec"],
      ["no target in the target", { ...scalingPool, target: {} }, "spec.target"],
      ["two targets", { ...scalingPool, target: { hitRate: 99, p99Ms: 100 } }, "spec.target"],
      ["a fixed size with a least one", { workloadRef: "agent", size: 3, minSize: 1 }, "spec"],
      ["a fixed size with a target", { workloadRef: "agent", size: 3, target: { hitRate: 99 } }, "spec"],
      ["a fixed size with a schedule", { workloadRef: "agent", size: 3, schedule: [] }, "spec"],
      ["a fixed size that shrinks", { workloadRef: "agent", size: 3, scaleDownAfterSeconds: 60 }, "spec"],
      ["more at least than at most", { ...scalingPool, minSize: 6 }, "spec.minSize"],
      [
        "more in a schedule than at most",
        { ...scalingPool, schedule: [{ cron: "0 8 * * *", minSize: 6 }] },
        "spec.schedule",
      ],
    ],
    "rules",
  ),
  ...pools(
    [
      [
        "an unknown time zone of a schedule",
        { ...scalingPool, schedule: [{ cron: "0 8 * * *", timezone: "Mars", minSize: 1 }] },
        "spec.schedule[0].timezone",
      ],
      [
        "a day that never comes",
        { ...scalingPool, schedule: [{ cron: "0 8 30 2 *", minSize: 1 }] },
        "spec.schedule[0].cron",
      ],
      ["a misspelt target", { ...scalingPool, targets: { hitRate: 99 } }, "spec.targets"],
    ],
    "us",
  ),
  ...triggers([
    ["an unknown type", { ...webhook, type: "email" }, "spec.type"],
    ["no type", { workloadRef: "agent", tenant: { static: "a" }, config: {} }, "spec.type"],
    ["no config", { type: "webhook", workloadRef: "agent", tenant: { static: "a" } }, "spec.config"],
    ["no tenant", { type: "webhook", workloadRef: "agent", config: { path: "/a" } }, "spec.tenant"],
    ["an empty tenant", { ...webhook, tenant: {} }, "spec.tenant"],
    ["two tenants", { ...webhook, tenant: { from: "a", static: "b" } }, "spec.tenant"],
    ["an illegal static tenant", { ...webhook, tenant: { static: "a b" } }, "spec.tenant.static"],
    ["an illegal prefix", { ...webhook, tenant: { from: "a", prefix: "-" } }, "spec.tenant.prefix"],
    ["a signature without a secret", { ...webhook, signing: {} }, "spec.signing.secretRef"],
    ["an unknown driver", { ...webhook, driver: "driver-c" }, "spec.driver"],
    [
      "a kind of update twice",
      { ...messenger, config: { ...messenger.config, updateTypes: ["message", "message"] } },
      "spec.config.updateTypes[1]",
    ],
    [
      "a tenant twice in an allowlist",
      { ...webhook, guards: [{ type: "allowlist", config: { tenantIds: ["a", "b", "a"] } }] },
      "spec.guards[0].config.tenantIds[2]",
    ],
    ["an unknown guard", { ...webhook, guards: [{ type: "maybe", config: {} }] }, "spec.guards[0].type"],
    ["a guard without config", { ...webhook, guards: [{ type: "allowlist" }] }, "spec.guards[0].config"],
    [
      "a driver with no time",
      { ...webhook, driverOptions: { timeoutSeconds: 0 } },
      "spec.driverOptions.timeoutSeconds",
    ],
  ]),
  ...triggers(
    [
      ["a path without its slash", { ...webhook, config: { path: "hook" } }, "spec.config.path"],
      ["a path with a query", { ...webhook, config: { path: "/hook?a" } }, "spec.config.path"],
      [
        "an address of no kind",
        { ...webhook, guards: [{ type: "api", config: { url: "x" } }] },
        "spec.guards[0].config.url",
      ],
      ["a webhook without a path", { ...webhook, config: {} }, "spec.config.path"],
      ["a messenger without a token", { ...messenger, config: {} }, "spec.config.botTokenSecretRef"],
      ["a messenger's tenant from nowhere", { ...messenger, tenant: { from: "name" } }, "spec.tenant.from"],
      ["a cron without a schedule", { ...cron, config: {} }, "spec.config.schedule"],
      ["a cron whose tenant is not fixed", { ...cron, tenant: { from: "id" } }, "spec.tenant.static"],
      [
        "a claim's file without content",
        { ...webhook, claim: { inputs: { files: [{ path: "/data/a" }] } } },
        "spec.claim.inputs.files[0]",
      ],
      ["a claim's label of another prefix", { ...webhook, claim: { labels: { "a/b": "c" } } }, "spec.claim.labels"],
      ["a claim that expires at once", { ...webhook, claim: { expiresInSeconds: 0 } }, "spec.claim.expiresInSeconds"],
      [
        "a signature that messages of a driver cannot have",
        { ...webhook, driver: "driver-a", signing: { secretRef: secret } },
        "spec.signing",
      ],
      ["an allowlist without tenants", { ...webhook, guards: [{ type: "allowlist", config: {} }] }, "spec.guards[0]"],
      ["an api guard without an address", { ...webhook, guards: [{ type: "api", config: {} }] }, "spec.guards[0]"],
    ],
    "rules",
  ),
  ...triggers(
    [
      [
        "a claim's variable that only the service sets",
        { ...webhook, claim: { inputs: { env: { TENANCY_X: "x" } } } },
        "spec.claim.inputs.env",
      ],
      ["a schedule of six fields", { ...cron, config: { schedule: "0 0 9 * * 1" } }, "spec.config.schedule"],
      ["an unknown timezone", { ...cron, config: { ...cron.config, timezone: "Mars" } }, "spec.config.timezone"],
      ["a misspelt config", { ...webhook, config: { path: "/a", secret: secret } }, "spec.config.secret"],
    ],
    "us",
  ),
];

type Row = readonly [title: string, spec: unknown, field: string];

function preSaving(preSave: object): object {
  return { overlayDirs: ["/data"], preSave };
}

function workloads(rows: readonly Row[], refusedBy: BadSpec["refusedBy"] = "schema"): BadSpec[] {
  return rows.map(([title, spec, field]) => ({ title, kind: "workload", spec, field, refusedBy }));
}

function pools(rows: readonly Row[], refusedBy: BadSpec["refusedBy"] = "schema"): BadSpec[] {
  return rows.map(([title, spec, field]) => ({ title, kind: "pool", spec, field, refusedBy }));
}

function triggers(rows: readonly Row[], refusedBy: BadSpec["refusedBy"] = "schema"): BadSpec[] {
  return rows.map(([title, spec, field]) => ({ title, kind: "trigger", spec, field, refusedBy }));
}
