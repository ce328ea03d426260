import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import { runCommand } from "../../cluster/process/run-command.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import type { SoakPods } from "../cluster/soak-cluster.ts";
import { expect } from "../history.ts";
import { CLAIMS_PATH, type Metadata, NAMESPACE, PODS_PATH, POOLS_PATH, WORKLOADS_PATH } from "../objects.ts";

/** How long the operator may take to come to rest. */
export const REST_LIMIT_MS = 60_000;

const CORE = `/api/v1/namespaces/${NAMESPACE}`;
/** What the operator makes for others, beside pods. */
export const OWNED_PATHS = [
  ...[`${CORE}/services`, `${CORE}/configmaps`, `${CORE}/secrets`],
  `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`,
];
const PATHS = [WORKLOADS_PATH, POOLS_PATH, CLAIMS_PATH, PODS_PATH, ...OWNED_PATHS];

interface Found {
  readonly kind?: string;
  readonly metadata: Metadata;
  readonly data?: Readonly<Record<string, string>>;
}

/** Where a state is read. */
export interface StateSource {
  readonly api: ApiClient;
  readonly pods: SoakPods;
  /** Folder of the snapshots volume; without it, archives are not looked at. */
  readonly volume: string | undefined;
}

/**
 * All that there is of one run, a line for each field, sorted: objects of the cluster, what is in pods, and archives.
 * Names that differ from run to run, uids, times, addresses and versions are left out.
 */
export async function readState(run: string, { api, pods, volume }: StateSource): Promise<string[]> {
  const lists = await Promise.all(
    PATHS.map(async (path) => {
      const { items } = JSON.parse(await expect(api, "GET", path)) as { items: Found[] };
      const plural = path.split("/").at(-1) ?? "";
      return items.filter((item) => JSON.stringify(item).includes(run)).map((item) => ({ plural, item }));
    }),
  );
  const found = lists.flat();
  const names = new Map<string, string>([[run, "RUN"]]);
  for (const { plural, item } of found) {
    if (plural !== "pods") continue;
    const tenant = item.metadata.labels?.["tenancy.dev/tenant"];
    if (tenant !== undefined) names.set(tenant, "TENANT");
    names.set(item.metadata.name, tenant === undefined ? "POD-OF-POOL" : "POD-OF-TENANT");
    // The user of a proxy is made of its workload's uid.
    const [, user] = /"runAsUser":(\d{9,})/.exec(JSON.stringify(item)) ?? [];
    if (user !== undefined) names.set(user, "USER");
  }
  const lines = found.flatMap(({ plural, item }) => {
    const { metadata, ...rest } = item;
    const { labels, annotations, finalizers, name, deletionTimestamp } = metadata;
    const isDeleted = deletionTimestamp !== undefined;
    const hidden = plural === "secrets" ? { data: Object.keys(item.data ?? {}) } : {};
    const content = plural === "pods" ? { content: pods.content(metadata.uid) } : {};
    const kept = { ...rest, ...hidden, ...content, labels, annotations, finalizers, isDeleted };
    return [...leavesOf(kept, `${plural}/${name}`)];
  });
  if (volume !== undefined) lines.push(...(await archivesIn(volume, run)));
  return lines
    .map((line) => normal(line, names))
    .filter((line) => !LEFT_OUT.some((left) => left.test(line)))
    .sort();
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

function* leavesOf(value: unknown, path: string): Iterable<string> {
  if (typeof value === "string" && value.includes("\n")) {
    for (const [index, line] of value.replace(CERTIFICATE, "CERTIFICATE").split("\n").entries())
      yield `${path}[line ${index + 1}]: ${line}`;
  } else if (typeof value !== "object" || value === null) {
    if (value !== undefined) yield `${path}: ${JSON.stringify(value)}`;
  } else if (Object.keys(value).length === 0) yield `${path}: ${JSON.stringify(value)}`;
  else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const { type, name = type } = (item ?? {}) as { type?: string; name?: string };
      yield* leavesOf(item, `${path}[${name ?? index}]`);
    }
  } else for (const [key, item] of Object.entries(value)) yield* leavesOf(item, `${path}.${key}`);
}

const VARYING: readonly (readonly [RegExp, string])[] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "UID"],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "TIME"],
  [/\b10\.\d+\.\d+\.\d+\b/g, "ADDRESS"],
  [/\bsoak-\d\b/g, "NODE"],
  [/\b\d+\.\d s\b/g, "SECONDS"],
  [/\b[0-9a-f]{16}([0-9a-f]{48})?\b/g, "DIGEST"],
];

/** What the way to a state leaves behind on purpose. */
const LEFT_OUT = [
  /\.(clusterIPs?(\[\d+\])?|sizeBytes): /,
  // Steps that an operator saw that has ended are missing.
  /\.timeline\[\d+\]\.\w+: /,
  // Which of the claim's pods it is: one whose restore was interrupted is replaced.
  /\.(podIncarnation|tenancy\.dev\/(incarnation|binding)): /,
  // A warm pod gets those of its workload when it is given to a claim.
  /^pods\/POD-OF-POOL\.annotations\.tenancy\.dev\/idle-/,
];

function normal(line: string, names: ReadonlyMap<string, string>): string {
  let text = line;
  for (const [name, shown] of [...names].reverse()) text = text.replaceAll(name, shown);
  for (const [varying, shown] of VARYING) text = text.replace(varying, shown);
  return text;
}

/** The archives of a run by what is in them. */
async function archivesIn(volume: string, run: string): Promise<string[]> {
  const files = readdirSync(volume, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.includes(run) && path.endsWith(".tar.gz"),
  );
  return Promise.all(
    files.map(async (file) => {
      const text = await runCommand("tar", ["-xzf", join(volume, file), "--to-stdout", "--wildcards", "*token"]);
      return `archive ${file}: ${JSON.stringify(text.split("\n", 1)[0])}`;
    }),
  );
}

/**
 * Reads a state until it is as expected and at rest, or time is over; returns the last one.
 *
 * @param options.isAtRest gets for how long the state has not changed, in milliseconds
 */
export async function restingState(options: {
  read(): Promise<string[]>;
  isExpected(state: readonly string[]): boolean;
  isAtRest(unchangedMs: number): boolean;
  signal: AbortSignal;
}): Promise<string[]> {
  const { read, isExpected, isAtRest, signal } = options;
  const end = performance.now() + REST_LIMIT_MS;
  let [last, since] = [await read(), performance.now()];
  for (;;) {
    if ((isExpected(last) && isAtRest(performance.now() - since)) || performance.now() > end) return last;
    await pause(100, signal);
    signal.throwIfAborted();
    const state = await read();
    if (diffOf(last, state).length > 0) since = performance.now();
    last = state;
  }
}

/** What is in one state alone, a line for each, after `-` (expected) or `+` (found); empty where they are the same. */
export function diffOf(expected: readonly string[], found: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const line of expected) counts.set(line, (counts.get(line) ?? 0) - 1);
  for (const line of found) counts.set(line, (counts.get(line) ?? 0) + 1);
  return [...counts]
    .filter(([, count]) => count !== 0)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(
      ([line, count]) => `${count < 0 ? "-" : "+"} ${line}${Math.abs(count) > 1 ? ` (${Math.abs(count)} times)` : ""}`,
    );
}
