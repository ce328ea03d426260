import { PORT_NAME, portWords, UNNAMED_PORT } from "../network.ts";
import { podKeyProblems } from "../pod-metadata.ts";
import { CLOSED_TAINTS, LEAVING_TAINTS, type Scheduling, schedulingWords } from "../scheduling.ts";
import { KERNEL_DIRECTORIES, OWN_DIRECTORIES, volumeSources, volumeWords, type WorkloadVolume } from "../volumes.ts";
import {
  healthChecks,
  healthWords,
  PULL_SECRETS_OF_REF,
  resourceWords,
  type WorkloadSpec,
  workloadSpecSchema,
} from "../workload.ts";
import { isImageReference } from "./image-reference.ts";
import { pattern } from "./patterns.ts";
import { plainSchema } from "./schema.ts";
import { type ProblemOptions, schemaProblems } from "./schema-problems.ts";

const schema = plainSchema(workloadSpecSchema);
const KERNEL_DIRECTORY = new RegExp(KERNEL_DIRECTORIES);
const TOOLS_DIRECTORY = /^\/(\.tenancy(\/|$)|run\/?$|run\/tenancy(\/|$))/;
const OWN_DIRECTORY = new RegExp(OWN_DIRECTORIES);
const ENVIRONMENT_NAME = /^[-._a-zA-Z][-._a-zA-Z0-9]*$/;
const ARGUMENT_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
const ADDRESS = /^[0-9.]+$/;
const LABEL_KEY = new RegExp(pattern.labelKey);
const RESOURCE_NAME = new RegExp(pattern.resourceName);
const UNNAMED = new RegExp(UNNAMED_PORT);
const PORT_NAMES = PORT_NAME.map((form) => new RegExp(form));
const CLOSED_TAINT = new RegExp(CLOSED_TAINTS);

/**
 * The problems of a workload's spec: sentences that name the field and say what to change; empty if it is valid.
 *
 * The same rules as the CRD's schema and CEL, and those that neither can express, on any API server.
 */
export function workloadProblems(spec: unknown, options: ProblemOptions = {}): string[] {
  const problems = schemaProblems({ value: spec, schema, path: "spec" }, options);
  return problems.length > 0 ? problems : ruleProblems(spec as WorkloadSpec);
}

function ruleProblems(spec: WorkloadSpec): string[] {
  return [
    ...imageProblems(spec.image),
    ...resourceProblems(spec.resources),
    ...schedulingProblems(spec.scheduling),
    ...podKeyProblems("spec.podLabels", spec.podLabels),
    ...podKeyProblems("spec.podAnnotations", spec.podAnnotations),
    ...portNameProblems(spec.network),
    ...domainProblems(spec),
    ...unusedProblems(spec),
    ...nestedProblems(spec.filesystem?.overlayDirs ?? []),
    ...(spec.filesystem?.overlayDirs ?? []).flatMap((directory, index) => {
      const problem = directoryProblem(directory);
      return problem === undefined ? [] : [`spec.filesystem.overlayDirs[${index}]: ${problem}`];
    }),
    ...(spec.filesystem?.preSave !== undefined && (spec.filesystem.overlayDirs ?? []).length === 0
      ? ["spec.filesystem.preSave: requires overlayDirs: without them nothing is saved"]
      : []),
    ...volumesProblems(spec),
    ...(spec.entrypoint?.envFrom ?? []).flatMap(({ configMapRef, secretRef }, index) =>
      (configMapRef === undefined) === (secretRef === undefined)
        ? [`spec.entrypoint.envFrom[${index}]: ${volumeWords.variables}`]
        : [],
    ),
    ...checkpointProblems(spec.filesystem?.checkpointSeconds),
    ...programProblems("spec.filesystem.preSave", spec.filesystem?.preSave?.command),
    ...hookProblems(spec.entrypoint),
    ...healthProblems(spec.health),
    ...(spec.entrypoint?.start === "OnClaim" && spec.filesystem?.saveWhileRunning === true
      ? [
          "spec.filesystem.saveWhileRunning: takes effect only with entrypoint.start Warm, not OnClaim: remove one of them",
        ]
      : []),
    ...Object.keys(spec.entrypoint?.env ?? {}).flatMap((name) =>
      ENVIRONMENT_NAME.test(name)
        ? []
        : [`spec.entrypoint.env: ${JSON.stringify(name)} is not a name: use letters, digits, '_', '-' and '.'`],
    ),
  ];
}

function volumesProblems({ volumes = [], filesystem }: WorkloadSpec): string[] {
  const folders = volumes.map(({ mountPath }) => asFolder(mountPath));
  const saved = (filesystem?.overlayDirs ?? []).map(asFolder);
  const isNested = folders.some((inner, index) =>
    folders.some((outer, other) => other !== index && inner.startsWith(outer)),
  );
  const isSaved = folders.some((folder) => saved.some((one) => folder.startsWith(one) || one.startsWith(folder)));
  return [
    ...volumes.flatMap((volume, index) => volumeProblems(`spec.volumes[${index}]`, volume)),
    ...(isNested ? [`spec.volumes: ${volumeWords.nested}`] : []),
    ...(isSaved ? [`spec.volumes: ${volumeWords.saved}`] : []),
  ];
}

function volumeProblems(path: string, { mountPath, ...source }: WorkloadVolume): string[] {
  const given = volumeSources.filter((name) => source[name] !== undefined);
  const isReference = source.image === undefined || isImageReference(source.image.reference);
  return [
    ...(given.length === 1 ? [] : [`${path}: ${volumeWords.sources}`]),
    ...(KERNEL_DIRECTORY.test(mountPath)
      ? [`${path}.mountPath: /proc, /sys and /dev belong to the kernel: choose another directory`]
      : []),
    ...(OWN_DIRECTORY.test(mountPath)
      ? [
          `${path}.mountPath: /.tenancy, /.tenancy-trust, /run and /run/tenancy are used by the pod itself: choose another directory`,
        ]
      : []),
    ...(isReference ? [] : [`${path}.image.reference: must be an image reference such as ghcr.io/acme/models:1.2`]),
  ];
}

function checkpointProblems(seconds = 0): string[] {
  if (seconds === 0 || seconds >= 30) return [];
  return ["spec.filesystem.checkpointSeconds: must be 0 for no checkpoints, or at least 30"];
}

function programProblems(path: string, command: readonly string[] | undefined): string[] {
  return command?.[0] === "" ? [`${path}.command[0]: must be the name of a program, not empty`] : [];
}

function healthProblems(health: NonNullable<WorkloadSpec["health"]> = {}): string[] {
  const given = healthChecks.filter((check) => health[check] !== undefined);
  return [
    ...(given.length > 1 ? [`spec.health: ${healthWords.checks}`] : []),
    ...(given.length > 0 && health.readyWhen === "Running" ? [`spec.health: ${healthWords.running}`] : []),
    ...programProblems("spec.health.exec", health.exec?.command),
  ];
}

function hookProblems({ start, onClaim }: NonNullable<WorkloadSpec["entrypoint"]> = {}): string[] {
  if (onClaim === undefined) return [];
  const { exec, httpPost } = onClaim;
  return [
    ...(start === "OnClaim"
      ? ["spec.entrypoint.onClaim: takes effect only with start Warm, not OnClaim: remove one of them"]
      : []),
    ...((exec === undefined) === (httpPost === undefined)
      ? ["spec.entrypoint.onClaim: must have one of exec and httpPost"]
      : []),
    ...programProblems("spec.entrypoint.onClaim.exec", exec?.command),
  ];
}

/** Why a path cannot hold files of a tenant. */
export function directoryProblem(path: string): string | undefined {
  if (KERNEL_DIRECTORY.test(path)) return "/proc, /sys and /dev belong to the kernel: choose another directory";
  if (TOOLS_DIRECTORY.test(path))
    return "/.tenancy and /run/tenancy are used to save and restore files: choose another directory";
  return undefined;
}

/** A list without effect would look like one that is enforced. */
function unusedProblems({ network }: WorkloadSpec): string[] {
  const { access = "none", allowlist = [], credentials = [] } = network ?? {};
  if (access === "restricted") return [];
  return [
    ...(allowlist.length > 0
      ? [
          `spec.network.allowlist: takes effect only under access restricted, not ${access}: set that, or remove the list`,
        ]
      : []),
    ...(credentials.length > 0
      ? [`spec.network.credentials: take effect only under access restricted, not ${access}: set that, or remove them`]
      : []),
  ];
}

function asFolder(directory: string): string {
  return directory.endsWith("/") ? directory : `${directory}/`;
}

function nestedProblems(directories: readonly string[]): string[] {
  const folders = directories.map(asFolder);
  return folders.flatMap((inner, index) => {
    const outer = folders.findIndex((folder, other) => other !== index && inner.startsWith(folder));
    // Of two equal directories only the second is reported.
    if (outer < 0 || (folders[outer] === inner && index < outer)) return [];
    return [
      `spec.filesystem.overlayDirs[${index}]: ${directories[index]} lies inside ${directories[outer]}, which already saves it: remove it`,
    ];
  });
}

function resourceProblems({
  vcpus,
  milliCpus,
  memoryMb = 512,
  requests,
  extended = {},
}: NonNullable<WorkloadSpec["resources"]> = {}): string[] {
  const isNamed = (name: string) => RESOURCE_NAME.test(name) && !name.includes("kubernetes.io/");
  return [
    ...(vcpus !== undefined && milliCpus !== undefined ? [resourceWords.cpus] : []),
    ...((requests?.milliCpus ?? 0) > (milliCpus ?? (vcpus ?? 1) * 1000) ? [resourceWords.requestedCpus] : []),
    ...((requests?.memoryMb ?? 0) > memoryMb ? [resourceWords.requestedMemory] : []),
  ]
    .map((words) => `spec.resources: ${words}`)
    .concat(Object.keys(extended).every(isNamed) ? [] : [`spec.resources.extended: ${resourceWords.extended}`]);
}

interface Requirement {
  readonly operator: string;
  readonly values?: readonly string[];
}

function schedulingProblems({
  nodeSelector,
  tolerations = [],
  affinity,
  topologySpreadConstraints: spread = [],
  priorityClassName,
}: Scheduling = {}): string[] {
  const at = "spec.scheduling";
  return [
    ...keyProblems(`${at}.nodeSelector`, nodeSelector),
    ...tolerations.flatMap((toleration, index) => tolerationProblems(`${at}.tolerations[${index}]`, toleration)),
    ...nodeAffinityProblems(`${at}.affinity.nodeAffinity`, affinity?.nodeAffinity),
    ...podAffinityProblems(`${at}.affinity.podAffinity`, affinity?.podAffinity),
    ...podAffinityProblems(`${at}.affinity.podAntiAffinity`, affinity?.podAntiAffinity),
    ...spread.flatMap(({ labelSelector, minDomains, whenUnsatisfiable }, index) => {
      const place = `${at}.topologySpreadConstraints[${index}]`;
      const isLoose = minDomains !== undefined && whenUnsatisfiable !== "DoNotSchedule";
      return [
        ...(isLoose ? [`${place}: ${schedulingWords.domains}`] : []),
        ...selectorProblems(`${place}.labelSelector`, labelSelector),
      ];
    }),
    ...(priorityClassName?.startsWith("system-") ? [`${at}.priorityClassName: ${schedulingWords.system}`] : []),
  ];
}

function portNameProblems({ ports = [], portNames = {} }: NonNullable<WorkloadSpec["network"]> = {}): string[] {
  const names = Object.keys(portNames);
  const named = Object.values(portNames);
  const isName = (name: string) =>
    name.length <= 15 && PORT_NAMES.every((form) => form.test(name)) && !UNNAMED.test(name);
  const areOfPorts = named.every((port) => ports.includes(port)) && new Set(named).size === named.length;
  return [
    ...(names.every(isName) ? [] : [`spec.network.portNames: ${portWords.names}`]),
    ...(areOfPorts ? [] : [`spec.network.portNames: ${portWords.ports}`]),
  ];
}

function keyProblems(path: string, labels: Readonly<Record<string, string>> = {}): string[] {
  return Object.keys(labels).every((key) => LABEL_KEY.test(key)) ? [] : [`${path}: ${schedulingWords.labelKeys}`];
}

function tolerationProblems(
  path: string,
  { key, operator, value = "", effect, tolerationSeconds }: NonNullable<Scheduling["tolerations"]>[number],
): string[] {
  const isOfLeaving = LEAVING_TAINTS.includes(key) && effect === "NoExecute";
  return [
    ...(operator === "Exists" && value !== "" ? [schedulingWords.exists] : []),
    ...(tolerationSeconds !== undefined && effect !== "NoExecute" ? [schedulingWords.seconds] : []),
    ...(CLOSED_TAINT.test(key) && !isOfLeaving ? [schedulingWords.closed] : []),
  ].map((words) => `${path}: ${words}`);
}

type Affinity = NonNullable<Scheduling["affinity"]>;
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution";

function nodeAffinityProblems(path: string, given: Affinity["nodeAffinity"] = {}): string[] {
  const terms = [
    ...(given[REQUIRED]?.nodeSelectorTerms ?? []).map(
      (term, index) => [`${path}.${REQUIRED}.nodeSelectorTerms[${index}]`, term] as const,
    ),
    ...(given[PREFERRED] ?? []).map(
      ({ preference }, index) => [`${path}.${PREFERRED}[${index}].preference`, preference] as const,
    ),
  ];
  return terms.flatMap(([place, { matchExpressions }]) =>
    requirementProblems(`${place}.matchExpressions`, matchExpressions, schedulingWords.nodeValues),
  );
}

function podAffinityProblems(path: string, given: Affinity["podAffinity"] = {}): string[] {
  const terms = [
    ...(given[REQUIRED] ?? []).map((term, index) => [`${path}.${REQUIRED}[${index}]`, term] as const),
    ...(given[PREFERRED] ?? []).map(
      ({ podAffinityTerm }, index) => [`${path}.${PREFERRED}[${index}].podAffinityTerm`, podAffinityTerm] as const,
    ),
  ];
  return terms.flatMap(([place, { labelSelector }]) => selectorProblems(`${place}.labelSelector`, labelSelector));
}

function selectorProblems(
  path: string,
  selector: { matchLabels?: Record<string, string>; matchExpressions?: readonly Requirement[] } = {},
): string[] {
  return [
    ...keyProblems(`${path}.matchLabels`, selector.matchLabels),
    ...requirementProblems(`${path}.matchExpressions`, selector.matchExpressions, schedulingWords.values),
  ];
}

function requirementProblems(path: string, requirements: readonly Requirement[] = [], words: string): string[] {
  return requirements.flatMap(({ operator, values = [] }, index) => {
    const needsValues = ["In", "NotIn", "Gt", "Lt"].includes(operator);
    const isNumber = values.length === 1 && /^[0-9]+$/.test(values[0] ?? "");
    const fits = needsValues === values.length > 0 && (isNumber || (operator !== "Gt" && operator !== "Lt"));
    return fits ? [] : [`${path}[${index}]: ${words}`];
  });
}

function imageProblems({ ref, dockerfile, context, args = {}, pullSecrets }: WorkloadSpec["image"]): string[] {
  if ((ref === undefined) === (dockerfile === undefined)) {
    return ["spec.image: give exactly one of ref and dockerfile"];
  }
  if (ref !== undefined) {
    if (!isImageReference(ref)) return ["spec.image.ref: must be an image reference such as ghcr.io/acme/agent:1.2"];
    if (context === undefined && Object.keys(args).length === 0) return [];
    return ["spec.image: context and args are only for an image that is built: set dockerfile, or remove them"];
  }
  const git = context?.git;
  return [
    ...(pullSecrets === undefined ? [] : [`spec.image: ${PULL_SECRETS_OF_REF}`]),
    ...pathProblems("spec.image.dockerfile", dockerfile, "the build context"),
    ...(context !== undefined && (context.configMapRef === undefined) === (git === undefined)
      ? ["spec.image.context: give exactly one of configMapRef and git"]
      : []),
    ...pathProblems("spec.image.context.git.path", git?.path, "the repository"),
    ...(git?.ref?.includes("..")
      ? ["spec.image.context.git.ref: must be one branch, tag or commit, without '..'"]
      : []),
    ...Object.keys(args).flatMap((name) =>
      ARGUMENT_NAME.test(name)
        ? []
        : [`spec.image.args: ${JSON.stringify(name)} is not a name: use letters, digits and '_', no digit first`],
    ),
  ];
}

function pathProblems(field: string, path = "", folder: string): string[] {
  if (path.startsWith("/")) return [`${field}: must be relative to ${folder}, without '/' first`];
  return path.split("/").includes("..") ? [`${field}: must not lead upwards with '..'`] : [];
}

function domainProblems({ network }: WorkloadSpec): string[] {
  const domains = [
    ...(network?.allowlist ?? []).map((domain, index) => [`spec.network.allowlist[${index}]`, domain] as const),
    ...(network?.credentials ?? []).map(
      (entry, index) => [`spec.network.credentials[${index}].domain`, entry.domain] as const,
    ),
  ];
  return domains.flatMap(([path, domain]) => {
    if (ADDRESS.test(domain))
      return [`${path}: must be a domain name, not an IP address: TLS identifies servers by domain`];
    if (domain.split(".").some((part) => part.length > 63))
      return [`${path}: a label between dots has more than 63 characters`];
    return [];
  });
}
