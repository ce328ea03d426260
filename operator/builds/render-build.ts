import { withDefaults } from "../../crds/defaults.ts";
import type { Container, Job, NetworkPolicy, NetworkPolicyEgressRule, Volume } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { buildJobName } from "../../crds/names.ts";
import type { Workload } from "../../crds/workload.ts";
import { closedRanges, partsOf, privateRanges } from "../cluster/address-ranges.ts";
import { clusterDns } from "../cluster/dns-rule.ts";
import type { BuildConfig } from "../config.ts";
import { literally } from "../literally.ts";
import { buildScript, gitContextScript } from "./build-script.ts";

export const CONTEXT_CONTAINER = "context";
export const BUILD_CONTAINER = "build";
export const BUILDKIT_CONFIG = "tenancy-buildkitd";
const TTL_SECONDS = 30 * 24 * 3600;
const POLICY = "tenancy-builds";

// The user of moby/buildkit's rootless images, which has subordinate ids.
const USER = { runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true } as const;

/** The image without its tag: the repository of the workload. */
export function builtImage(workload: string, { registry }: BuildConfig): string {
  return `${registry}/${workload}`;
}

/**
 * Renders the Job that builds the image of a workload, with rootless BuildKit.
 *
 * The operator sends the context to its init container, or the init container fetches it from Git. The build container
 * needs `newuidmap`, and so CAP_SETUID, CAP_SETGID and file capabilities. It also needs a user namespace, which
 * RuntimeDefault's seccomp and AppArmor profiles refuse. Pod Security `baseline` refuses such a pod, so builds have a
 * namespace without tenants (docs/decisions/builds.md). No container has a service account token.
 *
 * Follows https://github.com/moby/buildkit/blob/v0.26.3/docs/rootless.md
 *
 * @param build.tries the number of earlier tries of the same build
 */
export function renderBuildJob(workload: Workload, build: { key: string; tries: number }, config: BuildConfig): Job {
  const { name, uid = "" } = workload.metadata;
  const labels = { [label.build]: "true", [label.workload]: name };
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: buildJobName(name, build.key),
      namespace: config.namespace,
      labels,
      annotations: {
        [annotation.workloadUid]: uid,
        [annotation.buildKey]: build.key,
        [annotation.attempt]: String(build.tries),
      },
    },
    spec: {
      // The operator starts a lost build again, since it has to send the context again.
      backoffLimit: 0,
      // For Jobs that the operator does not delete: a person removed the workload's finalizer, or the operator now uses
      // another namespace of builds.
      ttlSecondsAfterFinished: TTL_SECONDS,
      activeDeadlineSeconds: Math.ceil(config.timeoutMs / 1000),
      template: {
        metadata: { labels },
        spec: {
          restartPolicy: "Never",
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 10,
          initContainers: [contextContainer(workload, config)],
          containers: [buildContainer(workload, build.key, config)],
          volumes: volumes(workload, config),
        },
      },
    },
  };
}

function contextContainer({ spec }: Workload, { builderImage }: BuildConfig): Container {
  const git = spec.image.context?.git;
  const wait = `trap 'exit 1' TERM; until [ -e /context/.ready ]; do sleep 0.1; done`;
  return {
    name: CONTEXT_CONTAINER,
    image: builderImage,
    command:
      git === undefined
        ? ["sh", "-c", wait]
        : ["sh", "-c", gitContextScript, CONTEXT_CONTAINER, ...gitWords(git).map(literally)],
    resources: { limits: { cpu: "1", memory: "256Mi" }, requests: { cpu: "50m", memory: "32Mi" } },
    securityContext: {
      ...USER,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    },
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [
      { name: "context", mountPath: "/context" },
      { name: "tmp", mountPath: "/tmp" },
      ...(git?.secretRef === undefined ? [] : [{ name: "git", mountPath: "/git", readOnly: true }]),
    ],
  };
}

type GitContext = NonNullable<NonNullable<Workload["spec"]["image"]["context"]>["git"]>;

function gitWords({ url, ref = "HEAD", path = ".", secretRef }: GitContext): string[] {
  return [url, ref, path, secretRef?.name ?? ""];
}

function buildContainer({ metadata, spec }: Workload, key: string, config: BuildConfig): Container {
  const { dockerfile = "", args = {} } = withDefaults(spec).image;
  const { builderImage, cpu, memory, disk, pushSecret } = config;
  const given = Object.entries(args).flatMap(([name, value]) => ["--opt", `build-arg:${name}=${value}`]);
  const words = [dockerfile, ...given].map(literally);
  const image = builtImage(metadata.name, config);
  return {
    name: BUILD_CONTAINER,
    image: builderImage,
    command: ["sh", "-c", buildScript, BUILD_CONTAINER, image, key.slice(0, 32), ...words],
    env: [
      { name: "CONFIG", value: "/config/buildkitd.toml" },
      { name: "DOCKER_CONFIG", value: "/docker" },
    ],
    resources: {
      limits: { cpu: String(cpu), memory, "ephemeral-storage": disk },
      requests: { cpu: "100m", memory: "128Mi" },
    },
    securityContext: {
      ...USER,
      // File capabilities need it.
      allowPrivilegeEscalation: true,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: ["SETUID", "SETGID"] },
      seccompProfile: { type: "Unconfined" },
      appArmorProfile: { type: "Unconfined" },
    },
    volumeMounts: [
      { name: "context", mountPath: "/context", readOnly: true },
      { name: "work", mountPath: "/work" },
      { name: "tmp", mountPath: "/tmp" },
      { name: "config", mountPath: "/config", readOnly: true },
      ...(pushSecret === undefined ? [] : [{ name: "docker", mountPath: "/docker", readOnly: true }]),
    ],
  };
}

// The script reports a missing key. With a required Secret, the pod would wait for it without end.
const gitKeys = ["token", "host"].map((key) => ({ key, path: key }));

function volumes({ spec }: Workload, { contextLimitBytes, disk, pushSecret }: BuildConfig): Volume[] {
  const token = spec.image.context?.git?.secretRef?.name;
  return [
    // Unpacked, a context may be four times as large.
    { name: "context", emptyDir: { sizeLimit: String(4 * contextLimitBytes) } },
    { name: "work", emptyDir: { sizeLimit: disk } },
    { name: "tmp", emptyDir: { sizeLimit: "256Mi" } },
    { name: "config", configMap: { name: BUILDKIT_CONFIG, optional: true } },
    ...(pushSecret === undefined
      ? []
      : [
          {
            name: "docker",
            secret: { secretName: pushSecret, items: [{ key: ".dockerconfigjson", path: "config.json" }] },
          },
        ]),
    ...(token === undefined ? [] : [{ name: "git", secret: { secretName: token, items: gitKeys, optional: true } }]),
  ];
}

/**
 * Renders the network policy of all builds: no inbound traffic; outbound only DNS, HTTPS at public addresses, and the
 * registry. Only this policy keeps the steps of a build file away from pods, the API server and nodes.
 */
export function renderBuildsPolicy(config: BuildConfig): NetworkPolicy {
  const { registry, namespace, openedRanges } = config;
  const [host = ""] = registry.split("/");
  const [, address = host, port = "443"] = /^(.*?):(\d+)$/.exec(host) ?? [];
  const ports = [443, Number(port)].filter((value, index, all) => all.indexOf(value) === index);
  const except = [...closedRanges, ...privateRanges];
  const to = (cidr: string, closed: readonly string[]) => {
    const parts = partsOf(cidr, closed);
    return { ipBlock: { cidr, ...(parts.length > 0 && { except: parts }) } };
  };
  const rules: NetworkPolicyEgressRule[] = [
    clusterDns,
    {
      to: [to("0.0.0.0/0", except), to("::/0", except), ...openedRanges.map((range) => to(range, closedRanges))],
      ports: ports.map((value) => ({ protocol: "TCP", port: value })),
    },
  ];
  // For a registry in a private network, only its address is opened.
  if (/^[0-9.]+$/.test(address)) {
    rules.push({ to: [to(`${address}/32`, [])], ports: [{ protocol: "TCP", port: Number(port) }] });
  }
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: POLICY, namespace, labels: { [label.build]: "true" } },
    spec: {
      podSelector: { matchLabels: { [label.build]: "true" } },
      policyTypes: ["Ingress", "Egress"],
      egress: rules,
    },
  };
}
