/** The groups of routes, in the order of the document. */
export const tags = {
  claims: "Give a tenant an instance, and release it.",
  instances: "Look into pods and run commands in them.",
  workloads: "Describe containers.",
  builds: "Build a workload's image.",
  pools: "Keep pods ready for claims.",
  triggers: "Call tenants' instances on external events.",
  snapshots: "Saved files of tenants.",
  events: "Changes as they happen.",
  session: "A browser's login.",
  keys: "Keys with a role.",
  usage: "What tenants use.",
  audit: "Who changed or looked at what.",
  system: "The service itself.",
} as const;

export type Tag = keyof typeof tags;

/** The first match counts. */
const patterns: readonly [RegExp, Tag][] = [
  [/\/snapshots(\/|$)/, "snapshots"],
  [/\/(build|context)(\/|$)/, "builds"],
  [/^\/ws$/, "events"],
  [/\/session$/, "session"],
  [/\/keys(\/|$)/, "keys"],
  [/\/usage$/, "usage"],
  [/\/audit$/, "audit"],
  [/\/(instances)(\/|$)/, "instances"],
  [/\/(tenants|tenant-summaries|claims)(\/|$)/, "claims"],
  [/\/(workloads)(\/|$)/, "workloads"],
  [/\/(pools)(\/|$)/, "pools"],
  [/\/(triggers)(\/|$)/, "triggers"],
];

/** The group of a route, by its path. */
export function tagOf(path: string): Tag {
  return patterns.find(([pattern]) => pattern.test(path))?.[1] ?? "system";
}
