import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { pattern } from "./schema/patterns.ts";
import { mapList, rules, stringEnum, stringMap } from "./schema/schema.ts";
import { patternHints } from "./schema/schema-problems.ts";

/**
 * Taints that keep pods from control planes, and from nodes that are not ready, being drained, or without their network
 * agent, which enforces the network policies. `manifests/components/admission/managed-pods.yaml` has the same.
 */
export const CLOSED_TAINTS =
  "^(node-role\\.kubernetes\\.io/(control-plane|controlplane|etcd|master)|node\\.(cloudprovider\\.)?kubernetes\\.io/.*|.*/agent-not-ready)$";
/** Those of them that only say how long a pod that runs stays, with the effect NoExecute. */
export const LEAVING_TAINTS: readonly string[] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

export const schedulingWords = {
  labelKeys: `each key must be ${patternHints[pattern.labelKey]}`,
  values: "In and NotIn need values, Exists and DoesNotExist have none",
  nodeValues: "In and NotIn need values, Gt and Lt one whole number, Exists and DoesNotExist none",
  exists: "a toleration with the operator Exists has no value: remove it, or use Equal",
  seconds: "tolerationSeconds takes effect only with the effect NoExecute: set that, or remove them",
  closed:
    "this taint keeps pods from control planes and from nodes that are not ready or drained; a workload may tolerate only node.kubernetes.io/not-ready and unreachable, with the effect NoExecute",
  system: "system-node-critical and system-cluster-critical are for the cluster's own pods: choose another class",
  domains: "minDomains takes effect only with whenUnsatisfiable DoNotSchedule: set that, or remove it",
} as const;

const labelKey = (description: string) => Type.String({ description, pattern: pattern.labelKey, maxLength: 317 });
const values = Type.Optional(
  Type.Array(Type.String({ description: "One value.", pattern: pattern.labelValue, maxLength: 63 }), {
    description: "Values to compare with; none for Exists and DoesNotExist.",
    maxItems: 32,
  }),
);

/** Labels by name. */
const labelMap = (description: string) =>
  stringMap(
    { pattern: pattern.labelValue, maxLength: 63 },
    {
      description,
      maxProperties: 16,
      ...rules({
        rule: `self.all(key, key.matches(r'${pattern.labelKey}'))`,
        message: schedulingWords.labelKeys,
      }),
    },
  );

const NEEDS_VALUES = "(self.operator in ['In', 'NotIn', 'Gt', 'Lt']) == (has(self.values) && size(self.values) > 0)";

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/node-selector-requirement/ */
const nodeRequirement = Type.Object(
  {
    key: labelKey("Label of the node."),
    operator: stringEnum(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"], {
      description: "How the label compares with the values.",
    }),
    values,
  },
  {
    description: "What a node's label must be.",
    ...rules({
      rule: `${NEEDS_VALUES} && (!(self.operator in ['Gt', 'Lt']) || size(self.values) == 1 && self.values[0].matches('^[0-9]+$'))`,
      message: schedulingWords.nodeValues,
    }),
  },
);

const fieldRequirement = Type.Object(
  {
    key: stringEnum(["metadata.name"], { description: "Field of the node." }),
    operator: stringEnum(["In", "NotIn"], { description: "How the field compares with the value." }),
    values: Type.Array(Type.String({ description: "Name of a node.", pattern: pattern.subdomain, maxLength: 253 }), {
      description: "One value.",
      ...{ minItems: 1, maxItems: 1 },
    }),
  },
  { description: "What a node's name must be." },
);

const listOf = <Item extends TSchema>(item: Item, description: string, { minItems }: { minItems?: number } = {}) =>
  Type.Array(item, { description, ...(minItems !== undefined && { minItems }), maxItems: 16 });

const nodeSelectorTerm = Type.Object(
  {
    matchExpressions: Type.Optional(listOf(nodeRequirement, "What the node's labels must be, all of it.")),
    matchFields: Type.Optional(listOf(fieldRequirement, "What the node's name must be, all of it.")),
  },
  { description: "What a node must be, all of it; a term without an entry matches no node." },
);

const weight = Type.Integer({
  description: "How much it counts against the other preferences.",
  minimum: 1,
  maximum: 100,
});

const nodeAffinity = Type.Object(
  {
    requiredDuringSchedulingIgnoredDuringExecution: Type.Optional(
      Type.Object(
        {
          nodeSelectorTerms: listOf(nodeSelectorTerm, "Terms, of which a node must match at least one.", {
            minItems: 1,
          }),
        },
        { description: "Nodes that pods may run on." },
      ),
    ),
    preferredDuringSchedulingIgnoredDuringExecution: Type.Optional(
      listOf(
        Type.Object({ weight, preference: nodeSelectorTerm }, { description: "A preference with its weight." }),
        "Nodes that pods should run on.",
      ),
    ),
  },
  { description: "On which nodes pods run, by the labels of the nodes." },
);

/** https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/ */
const labelSelector = Type.Optional(
  Type.Object(
    {
      matchLabels: Type.Optional(labelMap("Labels that a pod must have.")),
      matchExpressions: Type.Optional(
        listOf(
          Type.Object(
            {
              key: labelKey("Label of the pod."),
              operator: stringEnum(["In", "NotIn", "Exists", "DoesNotExist"], {
                description: "How the label compares with the values.",
              }),
              values,
            },
            {
              description: "What a pod's label must be.",
              ...rules({ rule: NEEDS_VALUES, message: schedulingWords.values }),
            },
          ),
          "What a pod's labels must be, all of it.",
        ),
      ),
    },
    { description: "Which of the workload's own pods count; all of them by default, and no other pods." },
  ),
);

const topologyKey = labelKey("Label of nodes: nodes with the same value are one place.");

const podTerm = Type.Object({ topologyKey, labelSelector }, { description: "Pods of the workload in the same place." });

const podAffinity = (description: string) =>
  Type.Object(
    {
      requiredDuringSchedulingIgnoredDuringExecution: Type.Optional(listOf(podTerm, "What must hold for each pod.")),
      preferredDuringSchedulingIgnoredDuringExecution: Type.Optional(
        listOf(
          Type.Object({ weight, podAffinityTerm: podTerm }, { description: "A preference with its weight." }),
          "What should hold for each pod.",
        ),
      ),
    },
    { description },
  );

/** https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#toleration-v1-core */
const toleration = Type.Object(
  {
    key: labelKey("Key of the taint."),
    operator: Type.Optional(
      stringEnum(["Equal", "Exists"], { description: "Whether the taint's value counts; Equal when absent." }),
    ),
    value: Type.Optional(
      Type.String({ description: "Value of the taint, for Equal.", pattern: pattern.labelValue, maxLength: 63 }),
    ),
    effect: Type.Optional(
      stringEnum(["NoSchedule", "PreferNoSchedule", "NoExecute"], {
        description: "Effect of the taint; every effect when absent.",
      }),
    ),
    tolerationSeconds: Type.Optional(
      Type.Integer({
        description: "Seconds that a pod stays on a node that gets a taint NoExecute; for good when absent.",
        minimum: 0,
        maximum: 31536000,
      }),
    ),
  },
  {
    description: "A taint of nodes that the pods tolerate.",
    ...rules(
      {
        rule: "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        message: schedulingWords.exists,
      },
      {
        rule: "!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",
        message: schedulingWords.seconds,
      },
      {
        rule: `!self.key.matches(r'${CLOSED_TAINTS}') || self.key in ['${LEAVING_TAINTS.join("', '")}'] && has(self.effect) && self.effect == 'NoExecute'`,
        message: schedulingWords.closed,
      },
    ),
  },
);

/** https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/ */
const spreadConstraint = Type.Object(
  {
    maxSkew: Type.Integer({
      description: "By how many pods two places may differ.",
      minimum: 1,
      maximum: 2147483647,
    }),
    topologyKey,
    whenUnsatisfiable: stringEnum(["DoNotSchedule", "ScheduleAnyway"], {
      description: "Whether a pod that would exceed it waits.",
    }),
    labelSelector,
    minDomains: Type.Optional(
      Type.Integer({
        description: "The least number of places; fewer count as places without pods.",
        minimum: 1,
        maximum: 2147483647,
      }),
    ),
    nodeAffinityPolicy: Type.Optional(
      stringEnum(["Honor", "Ignore"], {
        description: "Whether only nodes that nodeSelector and nodeAffinity allow count; Honor when absent.",
      }),
    ),
    nodeTaintsPolicy: Type.Optional(
      stringEnum(["Honor", "Ignore"], {
        description: "Whether only nodes whose taints are tolerated count; Ignore when absent.",
      }),
    ),
  },
  {
    description: "How evenly the workload's pods are spread over places.",
    ...rules({
      rule: "!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
      message: schedulingWords.domains,
    }),
  },
);

/**
 * On which nodes pods run, in the words of Kubernetes. Selectors of pods match the workload's own pods alone: one that
 * matched others could keep every other pod of the cluster from a node, or put a pod beside a chosen tenant's.
 */
export const schedulingSchema = Type.Object(
  {
    nodeSelector: Type.Optional(labelMap("Labels that a node must have, all of them.")),
    tolerations: Type.Optional(
      Type.Array(toleration, { description: "Taints of nodes that the pods tolerate.", maxItems: 16 }),
    ),
    affinity: Type.Optional(
      Type.Object(
        {
          nodeAffinity: Type.Optional(nodeAffinity),
          podAffinity: Type.Optional(podAffinity("Near which other pods of the workload its pods run.")),
          podAntiAffinity: Type.Optional(podAffinity("Away from which other pods of the workload its pods run.")),
        },
        { description: "What nodes must or should be, and which pods of the workload are there." },
      ),
    ),
    topologySpreadConstraints: Type.Optional(
      Type.Array(spreadConstraint, {
        description: "How evenly the workload's pods are spread over nodes or zones.",
        maxItems: 8,
        ...mapList("topologyKey", "whenUnsatisfiable"),
      }),
    ),
    priorityClassName: Type.Optional(
      Type.String({
        description:
          "PriorityClass of the pods. Pods of a higher one than the operator's and the edge's can take their place.",
        pattern: pattern.subdomain,
        maxLength: 253,
        ...rules({ rule: "!self.startsWith('system-')", message: schedulingWords.system }),
      }),
    ),
    schedulerName: Type.Optional(
      Type.String({
        description: "The scheduler that chooses nodes for the pods; the cluster's default one when absent.",
        pattern: pattern.subdomain,
        maxLength: 253,
      }),
    ),
  },
  { description: "On which nodes the pods run, in the words of Kubernetes." },
);

export type Scheduling = Static<typeof schedulingSchema>;
