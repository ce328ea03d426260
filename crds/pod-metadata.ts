import { pattern } from "./schema/patterns.ts";
import { rules, stringMap } from "./schema/schema.ts";
import { patternHints } from "./schema/schema-problems.ts";

/**
 * Labels and annotations that change what a pod is, not only what is known of it: those of Kubernetes, of this service,
 * of network plugins and meshes, of container runtimes, and of what gives pods identities and secrets.
 */
export const CLOSED_KEYS =
  "^([^/]*\\.)?(tenancy\\.dev|kubernetes\\.io|k8s\\.io|cncf\\.io|cilium\\.io|projectcalico\\.org|ovn\\.org|openshift\\.io|networkservicemesh\\.io|istio\\.io|linkerd\\.io|kuma\\.io|openservicemesh\\.io|dapr\\.io|opentelemetry\\.io|amazonaws\\.com|azure\\.com|azure\\.workload\\.identity|gke\\.io|google\\.com|alibabacloud\\.com|spiffe\\.io|hashicorp\\.com|banzaicloud\\.io|1password\\.io|conjur\\.org|gvisor\\.dev|nri\\.io|cri-o\\.io|crio\\.io)/|\\.(cri-o|crio)\\.io$|^(io\\.kubernetes\\.|io\\.katacontainers\\.|dev\\.gvisor\\.|run\\.oci\\.|aadpodidbinding$)";
/** One of them that only keeps the pod where it is. */
export const SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict";

export const podMetadataWords = {
  keys: `each key must be ${patternHints[pattern.labelKey]}`,
  closed:
    "keys of Kubernetes, of this service, of network plugins, meshes, runtimes and of what gives pods identities cannot be set (docs/explanation/isolation.md lists them)",
} as const;

const keyRules = rules(
  { rule: `self.all(key, key.matches(r'${pattern.labelKey}'))`, message: podMetadataWords.keys },
  {
    rule: `self.all(key, key == '${SAFE_TO_EVICT}' || !key.matches(r'${CLOSED_KEYS}'))`,
    message: podMetadataWords.closed,
  },
);

export const podLabelsSchema = stringMap(
  { pattern: pattern.labelValue, maxLength: 63 },
  {
    description: "Further labels of the pods, for monitoring and cost allocation. Keys that change pods are refused.",
    maxProperties: 16,
    ...keyRules,
  },
);

export const podAnnotationsSchema = stringMap(
  { pattern: pattern.noNull, maxLength: 4096 },
  {
    description:
      "Further annotations of the pods, for log collectors and monitoring. Keys that change pods are refused.",
    maxProperties: 16,
    ...keyRules,
  },
);

const LABEL_KEY = new RegExp(pattern.labelKey);
const CLOSED_KEY = new RegExp(CLOSED_KEYS);

/** What the fields' rules say of the keys. */
export function podKeyProblems(path: string, given: Readonly<Record<string, string>> = {}): string[] {
  const keys = Object.keys(given);
  return [
    ...(keys.every((key) => LABEL_KEY.test(key)) ? [] : [podMetadataWords.keys]),
    ...(keys.every((key) => key === SAFE_TO_EVICT || !CLOSED_KEY.test(key)) ? [] : [podMetadataWords.closed]),
  ].map((words) => `${path}: ${words}`);
}
