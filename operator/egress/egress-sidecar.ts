import { randomInt } from "node:crypto";
import { basename } from "node:path";
import type { Container, EnvVar, ProjectedSource, Volume, VolumeMount } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { leafFile } from "./egress-certificates.ts";
import { egressNames } from "./egress-names.ts";
import { EMPTY_FILE } from "./egress-objects.ts";
import { type EgressRules, valueFile } from "./egress-rules.ts";
import {
  HEALTH_PORT,
  POD_FOLDER,
  PROXY_CONTAINER,
  PUBLIC_AUTHORITIES,
  proxyFolders,
  READY_PATH,
  REDIRECT_CONTAINER,
  TENANT_FILE,
  TRUST_BUNDLE,
  TRUST_FOLDER,
} from "./layout.ts";
import { redirectScript } from "./redirect-script.ts";
import { supervisorScript } from "./supervisor-script.ts";

export interface EgressSidecarOptions {
  readonly workload: string;
  readonly rules: EgressRules;
  /** Image with `haproxy`, `nft`, Debian's ca-certificates and a busybox at `/bin/busybox`. */
  readonly image: string;
  /** The proxy's user, which differs in each pod: see {@link pickProxyUid}. */
  readonly proxyUid: number;
}

/** The parts of a pod that restrict its workload's network to the rules. */
export interface EgressSidecar {
  /** Closes the network before any other container runs. It is root with only NET_ADMIN. */
  readonly initContainer: Container;
  /** The proxy. Put it before the workload's container, so that the proxy is ready when the workload starts. */
  readonly container: Container;
  readonly volumes: readonly Volume[];
  /** Defaults for the workload's container: the workload's own variables override them. */
  readonly workloadEnv: readonly EnvVar[];
  readonly workloadMounts: readonly VolumeMount[];
}

const SETTINGS_VOLUME = "tenancy-egress";
const RUN_VOLUME = "tenancy-egress-run";
const TRUST_VOLUME = "tenancy-trust";
const POD_VOLUME = "tenancy-pod";

/**
 * Renders the proxy's part of a pod.
 *
 * It changes with the domains and Secrets of the credentials, which it mounts. It does not change with the allowlist or
 * with the contents of the Secrets: running pods follow these through their volumes. It contains the proxy's user, so a
 * hash of it needs a fixed user.
 */
export function egressSidecar({ workload, rules, image, proxyUid }: EgressSidecarOptions): EgressSidecar {
  const hasCredentials = rules.credentials.length > 0;
  const trustMount = { name: TRUST_VOLUME, mountPath: TRUST_FOLDER };
  const settingsMount = { name: SETTINGS_VOLUME, mountPath: proxyFolders.settings, readOnly: true };
  const trustScript = `cat ${PUBLIC_AUTHORITIES} ${proxyFolders.settings}/extra-ca.pem ${proxyFolders.settings}/ca.pem > ${TRUST_BUNDLE}`;
  const redirect = redirectScript({ proxyUid });
  const environment = [{ name: "PATH", value: "/usr/sbin:/usr/bin:/sbin:/bin" }];
  return {
    initContainer: {
      name: REDIRECT_CONTAINER,
      image,
      command: shell(hasCredentials ? `${redirect}\n${trustScript}` : redirect),
      env: environment,
      resources: {
        limits: { cpu: "1", memory: "64Mi", "ephemeral-storage": "16Mi" },
        requests: { cpu: "10m", memory: "16Mi", "ephemeral-storage": "16Mi" },
      },
      terminationMessagePolicy: "FallbackToLogsOnError",
      securityContext: {
        runAsUser: 0,
        runAsGroup: 0,
        runAsNonRoot: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
      },
      volumeMounts: hasCredentials ? [settingsMount, trustMount] : [],
    },
    container: {
      name: PROXY_CONTAINER,
      image,
      command: shell(supervisorScript(hasCredentials ? { trustBundle: TRUST_BUNDLE } : {})),
      env: environment,
      ports: [{ name: "egress-health", containerPort: HEALTH_PORT }],
      resources: {
        limits: { cpu: "1", memory: "128Mi", "ephemeral-storage": "16Mi" },
        requests: { cpu: "10m", memory: "32Mi", "ephemeral-storage": "16Mi" },
      },
      terminationMessagePolicy: "FallbackToLogsOnError",
      securityContext: {
        runAsUser: proxyUid,
        runAsGroup: proxyUid,
        runAsNonRoot: true,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      },
      volumeMounts: [
        settingsMount,
        { name: RUN_VOLUME, mountPath: proxyFolders.run },
        { name: POD_VOLUME, mountPath: POD_FOLDER, readOnly: true },
        ...(hasCredentials ? [trustMount] : []),
      ],
      // The kubelet starts the next container after this has ended.
      lifecycle: { postStart: { exec: { command: shell(untilReadyScript) } } },
      readinessProbe: {
        httpGet: { path: READY_PATH, port: HEALTH_PORT },
        periodSeconds: 5,
        timeoutSeconds: 2,
        failureThreshold: 2,
      },
    },
    volumes: [
      { name: SETTINGS_VOLUME, projected: { defaultMode: 0o444, sources: settingsSources(workload, rules) } },
      { name: RUN_VOLUME, emptyDir: { medium: "Memory", sizeLimit: "4Mi" } },
      // A separate volume, because a claim of a warm pod must not start another HAProxy.
      { name: POD_VOLUME, projected: { defaultMode: 0o444, sources: [{ downwardAPI: { items: [tenantItem] } }] } },
      ...(hasCredentials ? [{ name: TRUST_VOLUME, emptyDir: { sizeLimit: "4Mi" } }] : []),
    ],
    workloadEnv: hasCredentials ? trustEnvironment(TRUST_BUNDLE) : [],
    workloadMounts: hasCredentials ? [{ ...trustMount, readOnly: true }] : [],
  };
}

const tenantItem = { path: basename(TENANT_FILE), fieldRef: { fieldPath: `metadata.labels['${label.tenant}']` } };

/**
 * One volume, so that settings and certificates change together. Missing Secrets are left out: the proxy answers 503
 * for them.
 */
function settingsSources(workload: string, { credentials }: EgressRules): ProjectedSource[] {
  const names = egressNames(workload);
  const files = new Map<string, Map<string, string>>();
  for (const { value } of credentials.flatMap(({ headers }) => headers)) {
    const keys = files.get(value.name) ?? new Map<string, string>();
    files.set(value.name, keys.set(value.key, valueFile(value)));
  }
  const leaves = credentials.map(({ domain }) => leafFile(domain)).sort();
  return [
    { configMap: { name: names.settings } },
    { configMap: { name: names.settings, items: [{ key: EMPTY_FILE, path: "leaves/.empty" }] } },
    ...(leaves.length === 0
      ? []
      : [
          {
            secret: {
              name: names.leaves,
              optional: true,
              items: leaves.map((key) => ({ key, path: `leaves/${key}` })),
            },
          },
        ]),
    ...[...files].sort(byName).map(([name, keys]) => ({
      secret: { name, optional: true, items: [...keys].sort(byName).map(([key, path]) => ({ key, path })) },
    })),
  ];
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function shell(script: string): string[] {
  return ["/bin/busybox", "sh", "-c", script];
}

// Waits for the socket, since the proxy's user may not connect to loopback. It waits 15 s at most; after that, the
// readiness probe reports a failure.
const untilReadyScript = `tries=0
until [ -S ${proxyFolders.run}/haproxy.sock ] || [ $tries -ge 300 ]; do
  tries=$((tries + 1))
  sleep 0.05
done`;

/**
 * In this order, the variables of: OpenSSL, Go, Ruby and Rust's native roots; Node; requests and pip; curl; git; the
 * AWS SDKs; Deno.
 */
const VARIABLES = [
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "AWS_CA_BUNDLE",
  "DENO_CERT",
] as const;

/** The variables that point programs to a bundle of trusted authorities. */
function trustEnvironment(bundle: string): EnvVar[] {
  return VARIABLES.map((name) => ({ name, value: bundle }));
}

interface ShareInitContainerOptions {
  /** The container that closes the network. */
  readonly redirect: Container;
  /** The containers of the snapshot tools: one or none. */
  readonly tools: readonly Container[];
  /** Whether files are restored into the tools' container. */
  readonly isRestored: boolean;
}

/**
 * Merges the redirect and the snapshot tools into one init container if possible, since each one takes the kubelet up
 * to a second.
 *
 * Not if files are restored: that container runs as their owner, and the redirect needs root. Also, no process with
 * NET_ADMIN may unpack a tenant's files.
 */
export function shareInitContainer({ redirect, tools, isRestored }: ShareInitContainerOptions): Container[] {
  const [tool, ...others] = tools;
  if (tool === undefined) return [redirect];
  if (isRestored || others.length > 0) return [redirect, ...tools];
  return [
    {
      ...redirect,
      command: [...(redirect.command ?? []).slice(0, -1), `${scriptOf(redirect)}\n${scriptOf(tool)}`],
      ...(tool.resources !== undefined && { resources: tool.resources }),
      volumeMounts: [...(redirect.volumeMounts ?? []), ...(tool.volumeMounts ?? [])],
    },
  ];
}

function scriptOf({ name, command = [] }: Container): string {
  const script = command.at(-1);
  if (command.at(-2) !== "-c" || script === undefined) {
    throw new TypeError(`Cannot share an init container with ${name}: it runs no shell script`);
  }
  return script;
}

// Far above the user ids of images and distributions, and below 2^31, since some tools read signed numbers.
const FIRST = 1_000_000_000;
const LAST = 2_000_000_000;

/** The proxy's user in templates that are compared. */
export const TEMPLATE_PROXY_UID = FIRST;

/**
 * Picks the user of a pod's proxy, whose connections are not redirected. An image that runs as this user would bypass
 * the proxy, and only the node knows an image's user. So each pod has a random one, which no image can name in advance.
 */
export function pickProxyUid(): number {
  return randomInt(FIRST + 1, LAST);
}
