import { conditionOf, namespaceOf, OWN_NAMESPACES, PARTS } from "./parts.ts";
import { PLACES, type Place } from "./places.ts";
import { keyOf, type Rendered, render } from "./render.ts";
import { both, type Choice, isMap, mark, type Node, nameOf, nodeOf, nodesAt } from "./tree.ts";

/** One object of the chart. */
export interface ChartObject extends Choice {
  kind: string;
  name: string;
  /** The component that adds it, or `base`. */
  from: string;
  /** The name of its template, if another object includes it. */
  template?: string;
}

/** The objects of the chart with values at their places, and the defaults of these values from the manifests. */
export async function chartObjects(
  root: string,
): Promise<{ objects: ChartObject[]; defaults: ReadonlyMap<string, unknown> }> {
  const { objects, all } = await markedObjects(root);
  const defaults = new Map<string, unknown>();
  for (const place of PLACES) {
    const found = objects.filter(({ kind, name }) => place.object === `${kind} ${name}`);
    const filled = found.map(({ node }) => fill(node, place));
    if (!filled.includes(true)) throw new Error(`Cannot find ${place.object} ${place.path.join(".")} in manifests`);
    const rendered = all.find(({ kind, metadata }) => place.object === `${kind} ${metadata.name}`);
    if (place.defaultOf !== undefined && !defaults.has(place.defaultOf))
      defaults.set(place.defaultOf, valueAt(rendered, place.path));
  }
  for (const { kind, node } of objects) {
    withNamespaces(node, { kind, keys: "", inList: false });
    if (KEPT.has(kind)) keep(node);
  }
  for (const one of all) if (one.kind === "Deployment") restartWithConfigMaps(objects, one);
  return { objects, defaults };
}

/** The kinds that Helm keeps when a release is uninstalled, since deleting them would delete tenants' objects. */
const KEPT = new Set(["CustomResourceDefinition", "Namespace"]);

async function markedObjects(root: string): Promise<{ objects: ChartObject[]; all: Rendered[] }> {
  const objects = new Map<string, ChartObject>();
  const all: Rendered[] = [];
  for (const of of ["base", "builds", "keys"] as const) {
    const whole = of === "base" ? undefined : OWN_NAMESPACES[of];
    let before: Rendered[] = [];
    const components: string[] = [];
    for (const part of [undefined, ...PARTS.filter((one) => (one.of ?? "base") === of)]) {
      if (part !== undefined) components.push(part.component);
      const after = await render(root, { resources: [of], components });
      markChanges(objects, { before, after, when: part?.when ?? whole, from: part?.component ?? of });
      before = after;
    }
    all.push(...before);
  }
  for (const object of objects.values()) object.when = both(object.when, conditionOf(object));
  return { objects: [...objects.values()], all };
}

function markChanges(
  objects: Map<string, ChartObject>,
  change: { before: Rendered[]; after: Rendered[]; when: string | undefined; from: string },
): void {
  const { when, from } = change;
  const [before, after] = [change.before, change.after].map((all) => new Map(all.map((one) => [keyOf(one), one])));
  for (const [key, object] of after ?? []) {
    const old = before?.get(key);
    const known = objects.get(key);
    if (old === undefined || known === undefined) {
      const { kind, metadata } = object;
      objects.set(key, { kind, name: metadata.name, from, when, node: nodeOf(object) });
    } else if (when !== undefined) mark(known.node, { before: old, after: object, when });
  }
  for (const key of before?.keys() ?? []) {
    const known = objects.get(key);
    if (!after?.has(key) && known !== undefined) known.when = both(known.when, `not (${when})`);
  }
}

/** Whether the place exists. */
function fill(root: Node, place: Place): boolean {
  const { path, write, when, append, name, brings, of } = place;
  const node: Node = { type: "written", write, ...(name !== undefined && { name }) };
  if (append) {
    const lists = nodesAt(root, path).flatMap((list) => (list.type === "list" ? [list] : []));
    for (const { items } of lists) {
      for (const item of brings === undefined ? [] : items) {
        const own = nameOf(item.node);
        if (typeof own === "string") item.when = both(item.when, `not (${brings?.(own)})`);
      }
      items.push({ when, node });
    }
    return lists.length > 0;
  }
  const [key = "", parent] = [path.at(-1), path.slice(0, -1)];
  let filled = false;
  for (const map of nodesAt(root, parent)) {
    if (map.type !== "map") continue;
    const entry = map.entries.find((one) => one.key === key);
    for (const there of entry?.choices ?? []) {
      if (of !== undefined && !(there.node.type === "plain" && there.node.value === of)) continue;
      there.node = node;
      there.when = both(there.when, when);
    }
    if (entry === undefined && of === undefined) map.entries.push({ key, choices: [{ when, node }] });
    filled = true;
  }
  return filled;
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce((at: unknown, key) => {
    if (Array.isArray(at)) return at[Number(key)] ?? at.find((item) => isMap(item) && item.name === key);
    return isMap(at) ? at[key] : undefined;
  }, value);
}

const NAMESPACES = ["tenancy", "tenancy-builds", "tenancy-keys"];
/** The keys of fields that name one or several namespaces. */
const NAMING = /\.(namespaces?|matchNames)$/;

/** Replaces the names of namespaces in a node by the values for them. */
function withNamespaces(node: Node, { kind, keys, inList }: { kind: string; keys: string; inList: boolean }): Node {
  if (node.type === "map")
    for (const { key, choices } of node.entries)
      for (const choice of choices)
        choice.node = withNamespaces(choice.node, { kind, keys: `${keys}.${key}`, inList: false });
  if (node.type === "list")
    for (const item of node.items) item.node = withNamespaces(item.node, { kind, keys, inList: true });
  if (node.type !== "plain" || typeof node.value !== "string") return node;
  const expression = namespaceIn(node.value, { kind, keys });
  if (expression === undefined) return node;
  const text = `{{ ${expression} | quote }}`;
  return { type: "written", write: (indent) => (inList ? `${" ".repeat(indent)}- ${text}` : text) };
}

function namespaceIn(value: string, { kind, keys }: { kind: string; keys: string }): string | undefined {
  const account = /^system:serviceaccount:tenancy:(.+)$/.exec(value);
  if (account !== null) return `printf "system:serviceaccount:%s:${account[1]}" ${namespaceOf("tenancy")}`;
  const names = NAMING.test(keys) || (kind === "Namespace" && keys === ".metadata.name");
  return names && NAMESPACES.includes(value) ? namespaceOf(value) : undefined;
}

function keep(root: Node): void {
  const entry = { key: "helm.sh/resource-policy", choices: [{ when: undefined, node: nodeOf("keep") }] };
  const annotations = nodesAt(root, ["metadata", "annotations"]);
  for (const map of annotations) if (map.type === "map") map.entries.push(entry);
  if (annotations.length > 0) return;
  for (const metadata of nodesAt(root, ["metadata"]))
    if (metadata.type === "map")
      metadata.entries.push({
        key: "annotations",
        choices: [{ when: undefined, node: { type: "map", entries: [entry] } }],
      });
}

/**
 * Pods read ConfigMaps at their start. An annotation with a hash of these makes an upgrade that changes one replace the
 * pods.
 */
function restartWithConfigMaps(objects: readonly ChartObject[], deployment: Rendered): void {
  const names = new Set(configMapsIn(deployment));
  const read = objects.filter(({ kind, name }) => kind === "ConfigMap" && names.has(name));
  for (const one of read) one.template = `tenancy.configmap.${one.name}`;
  const texts = `print ${read.map(({ template }) => `(include "${template}" .)`).join(" ")}`;
  const checksum: Node = { type: "written", write: () => `{{ ${texts} | sha256sum | quote }}` };
  const entry = { key: "checksum/config", choices: [{ when: undefined, node: checksum }] };
  const own = objects.find(({ kind, name }) => kind === deployment.kind && name === deployment.metadata.name);
  if (own === undefined || read.length === 0) return;
  for (const metadata of nodesAt(own.node, ["spec", "template", "metadata"]))
    if (metadata.type === "map")
      metadata.entries.push({
        key: "annotations",
        choices: [{ when: texts, node: { type: "map", entries: [entry] } }],
      });
}

function configMapsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(configMapsIn);
  if (!isMap(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    /^configMap(Key)?Ref$/.test(key) && isMap(inner) ? [String(inner.name)] : configMapsIn(inner),
  );
}
