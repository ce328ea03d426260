import { stringify } from "yaml";
import type { Choice, Node } from "./tree.ts";

/** Helm reads YAML 1.1, where `off` is false. */
export const YAML_1_1 = { version: "1.1", lineWidth: 0 } as const;

/** The text of a template that writes one object. */
export function writeTemplate({ when, node }: Choice): string {
  return under(when, [`---`, ...linesOf(node, 0)]).join("\n");
}

/** Lines of a map's entries or a list's items, indented. */
function linesOf(node: Node, indent: number): string[] {
  const space = " ".repeat(indent);
  if (node.type === "map")
    return node.entries.flatMap(({ key, choices }) =>
      choices.flatMap(({ when, node: inner }) => under(when, keyed(`${space}${quoted(key)}:`, inner, indent))),
    );
  if (node.type === "list")
    return node.items.flatMap(({ when, node: inner }) => under(when, itemOf(inner, { space, indent })));
  return [`${space}${node.type === "plain" ? scalar(node.value, indent) : node.write(indent)}`];
}

function keyed(head: string, node: Node, indent: number): string[] {
  if (node.type === "map" && node.entries.length === 0) return [`${head} {}`];
  if (node.type === "list" && node.items.length === 0) return [`${head} []`];
  if (node.type === "plain") return `${head} ${scalar(node.value, indent + 2)}`.split("\n");
  if (node.type === "written") return [`${head} ${node.write(indent + 2)}`];
  return [head, ...linesOf(node, indent + (node.type === "list" ? 0 : 2))];
}

function itemOf(node: Node, { space, indent }: { space: string; indent: number }): string[] {
  if (node.type === "plain") return `${space}- ${scalar(node.value, indent + 2)}`.split("\n");
  if (node.type === "written") return node.write(indent).split("\n");
  const [first, ...rest] = linesOf(node, indent + 2);
  if (first === undefined) return [`${space}- ${node.type === "map" ? "{}" : "[]"}`];
  // The dash is on its own line, since what follows may be omitted.
  if (first.startsWith("{{")) return [`${space}-`, first, ...rest];
  return [`${space}- ${first.slice(indent + 2)}`, ...rest];
}

function under(when: string | undefined, lines: string[]): string[] {
  return when === undefined ? lines : [`{{- if ${when} }}`, ...lines, "{{- end }}"];
}

/** A value as YAML, in which Go's braces are escaped. */
function scalar(value: unknown, indent: number): string {
  // It is written below a key, since that is its position in the template.
  const text = stringify({ k: value }, YAML_1_1).trimEnd().slice("k: ".length);
  const [first = "", ...rest] = text.split("\n");
  const block = rest.map((line) => (line === "" ? "" : `${" ".repeat(indent - 2)}${line}`));
  return [first, ...block].join("\n").replaceAll("{{", '{{ "{{" }}');
}

function quoted(key: string): string {
  return stringify(key, YAML_1_1).trimEnd();
}
