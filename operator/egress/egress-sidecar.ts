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
  /** Name of the workload. */
  readonly workload: string;
  readonly rules: EgressRules;
  /** Image with `haproxy`, `nft`, Debian's ca-certificates and a busybox at `/bin/busybox`. */
  readonly image: string;
  /** The proxy's user, other in each pod: see {@link pickProxyUid}. */
  readonly proxyUid: number;
}

/** What a pod needs so that its workload reaches what its rules say and nothing else. */
export interface EgressSidecar {
  /** Closes the network before anything else runs; root, with NET_ADMIN and nothing else. */
  readonly initContainer: Container;
  /** Goes before the workload's own, so that the proxy answers when that starts. */
  readonly container: Container;
  readonly volumes: readonly Volume[];
  /** For the workload's own container, before the workload's own variables, which win. */
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
 * It changes with the credentials' domains and Secrets, which it mounts, and neither with the allowlist nor with what
 * the Secrets hold: pods that run follow those by their volumes. The proxy's user is in it too, so a hash of it needs a
 * fixed one.
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
      // The kubelet starts the next container when this has ended.
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
      // Apart from the settings, because a claim must not start another HAProxy.
      { name: POD_VOLUME, projected: { defaultMode: 0o444, sources: [{ downwardAPI: { items: [tenantItem] } }] } },
      ...(hasCredentials ? [{ name: TRUST_VOLUME, emptyDir: { sizeLimit: "4Mi" } }] : []),
    ],
    workloadEnv: hasCredentials ? trustEnvironment(TRUST_BUNDLE) : [],
    workloadMounts: hasCredentials ? [{ ...trustMount, readOnly: true }] : [],
  };
}

const tenantItem = { path: basename(TENANT_FILE), fieldRef: { fieldPath: `metadata.labels['${label.tenant}']` } };

/**
 * One volume, so that settings and certificates change together. What is missing is left out: the proxy answers 503 for
 * it.
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

// By the socket, since the proxy's user may not connect to loopback; fifteen seconds at most, and then readiness tells
// of it.
const untilReadyScript = `tries=0
until [ -S ${proxyFolders.run}/haproxy.sock ] || [ $tries -ge 300 ]; do
  tries=$((tries + 1))
  sleep 0.05
done`;

/**
 * Which programs read which: OpenSSL, Go, Ruby and Rust's native roots; Node; requests and pip; curl; git; the AWS
 * SDKs; Deno.
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

/** The variables by which programs find a bundle of trusted authorities. */
function trustEnvironment(bundle: string): EnvVar[] {
  return VARIABLES.map((name) => ({ name, value: bundle }));
}

interface ShareInitContainerOptions {
  /** What closes the network. */
  readonly redirect: Container;
  /** Those of the snapshot tools: one, or none. */
  readonly tools: readonly Container[];
  /** Whether files are restored into the tools' container. */
  readonly isRestored: boolean;
}

/**
 * Puts the redirect and the snapshot tools into one init container where that can be, since each costs up to a second
 * of the kubelet's time.
 *
 * Where files are restored it cannot: that container runs as their owner, and the redirect needs root; and what a
 * tenant saved is not unpacked by a process with NET_ADMIN.
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

// Far above what images and distributions use, and below 2^31, which some tools take as signed.
const FIRST = 1_000_000_000;
const LAST = 2_000_000_000;

/** Stands for whatever user a pod's proxy has where templates are compared. */
export const TEMPLATE_PROXY_UID = FIRST;

/**
 * Picks the user of a pod's proxy, whose connections are not redirected. An image that ran as that user would go round
 * the proxy, and only the node learns an image's user; so each pod has another, which no image can name beforehand.
 */
export function pickProxyUid(): number {
  return randomInt(FIRST + 1, LAST);
}
