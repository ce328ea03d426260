// Objects in which everything that depends on values is marked: parts that a value adds or omits, and texts that it
// sets.

/** A Go template's expression that is true or false. Undefined means always true. */
export type Condition = string | undefined;

/** Writes the text after a key, or a list item with its dash. Additional lines have that indentation. */
export type Write = (indent: number) => string;

export type Node =
  | { type: "plain"; value: unknown }
  | { type: "map"; entries: Entry[] }
  | { type: "list"; items: Choice[] }
  | { type: "written"; write: Write; name?: string };

/** A part of an object with its condition. */
export interface Choice {
  when: Condition;
  node: Node;
}

/** A key with its value, or with several values of which at most one applies. */
export interface Entry {
  key: string;
  choices: Choice[];
}

export type Plain = Record<string, unknown>;

/** A whole object, without conditions. */
export function nodeOf(value: unknown): Node {
  if (Array.isArray(value)) return { type: "list", items: value.map((item) => always(nodeOf(item))) };
  if (isMap(value))
    return {
      type: "map",
      entries: Object.entries(value).map(([key, inner]) => ({ key, choices: [always(nodeOf(inner))] })),
    };
  return { type: "plain", value };
}

/** Both conditions. */
export function both(first: Condition, second: Condition): Condition {
  if (first === undefined || second === undefined) return first ?? second;
  return `and (${first}) (${second})`;
}

/**
 * Marks the differences between a node of `before` and `after`.
 *
 * @param node changed in place
 * @param when the condition under which the node is as in `after`
 * @returns the node itself, or undefined if it has to be replaced as a whole
 */
export function mark(node: Node, change: { before: unknown; after: unknown; when: string }): Node | undefined {
  const { before, after, when } = change;
  if (node.type === "map" && isMap(before) && isMap(after)) {
    markMap(node.entries, { before, after, when });
    return node;
  }
  if (node.type === "list" && Array.isArray(before) && Array.isArray(after)) {
    node.items = markList(node.items, { before, after, when });
    return node;
  }
  return undefined;
}

function markMap(entries: Entry[], { before, after, when }: { before: Plain; after: Plain; when: string }): void {
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (isEqual(before[key], after[key])) continue;
    let entry = entries.find((one) => one.key === key);
    if (entry === undefined) {
      entry = { key, choices: [] };
      entries.push(entry);
    }
    const last = entry.choices.at(-1);
    if (key in before && key in after && last !== undefined) {
      if (mark(last.node, { before: before[key], after: after[key], when }) !== undefined) continue;
    }
    if (key in before && last !== undefined) last.when = both(last.when, `not (${when})`);
    if (key in after) entry.choices.push({ when, node: nodeOf(after[key]) });
  }
}

/**
 * Items of the same name, or equal ones, are the same; the items of the result that hold with all parts stand in the
 * order of `after`.
 */
function markList(
  items: readonly Choice[],
  { before, after, when }: { before: unknown[]; after: unknown[]; when: string },
): Choice[] {
  const held = items.filter((item) => !gone.has(item));
  if (held.length !== before.length) throw new Error("Cannot mark a list: it does not stand for what was there before");
  const result: Choice[] = [];
  let next = 0;
  for (const item of items) {
    if (gone.has(item)) {
      result.push(item);
      continue;
    }
    const old = before[held.indexOf(item)];
    const found = after.findIndex((one, at) => at >= next && isSame(one, old));
    if (found === -1) {
      item.when = both(item.when, `not (${when})`);
      gone.add(item);
      result.push(item);
      continue;
    }
    for (const added of after.slice(next, found)) result.push({ when, node: nodeOf(added) });
    if (!isEqual(old, after[found])) mark(item.node, { before: old, after: after[found], when });
    result.push(item);
    next = found + 1;
  }
  for (const added of after.slice(next)) result.push({ when, node: nodeOf(added) });
  return result;
}

/** Items that do not exist if all parts are on. */
const gone = new WeakSet<Choice>();

/** The nodes at a path of keys, with any condition. A list item is named by its index or its `name`. */
export function nodesAt(node: Node, [key, ...rest]: readonly string[]): Node[] {
  if (key === undefined) return [node];
  const inner: Choice[] = [];
  if (node.type === "map") inner.push(...(node.entries.find((one) => one.key === key)?.choices ?? []));
  if (node.type === "list")
    inner.push(...node.items.filter((item, at) => key === String(at) || key === nameOf(item.node)));
  return inner.flatMap((choice) => nodesAt(choice.node, rest));
}

/** The name of an item of a list. */
export function nameOf(node: Node): unknown {
  if (node.type === "written") return node.name;
  if (node.type !== "map") return undefined;
  const name = node.entries.find(({ key }) => key === "name")?.choices[0]?.node;
  return name?.type === "plain" ? name.value : undefined;
}

function isSame(one: unknown, other: unknown): boolean {
  if (isMap(one) && isMap(other) && typeof one.name === "string") return one.name === other.name;
  return isEqual(one, other);
}

export function isMap(value: unknown): value is Plain {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function always(node: Node): Choice {
  return { when: undefined, node };
}
