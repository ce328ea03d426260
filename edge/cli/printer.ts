import { stringify } from "yaml";
import { escapeJson, escapeLines, escapeText } from "./escape.ts";
import { type Io, writeTo } from "./io.ts";

export type Format = "table" | "json" | "yaml" | "name";

/** How results of one kind are shown. */
export interface Shape<Item> {
  /** Title and text of each column. */
  readonly columns: readonly (readonly [title: string, text: (item: Item) => string | number | undefined])[];
  /** What `-o name` prints. */
  readonly name: (item: Item) => string;
}

/** Writes results to standard output in the format of `-o`. */
export interface Printer {
  readonly format: Format;
  /** A list. */
  list<Item>(items: readonly Item[], shape: Shape<Item>): Promise<void>;
  /** One result: as a list of one, but in JSON and YAML by itself. */
  one<Item>(item: Item, shape: Shape<Item>): Promise<void>;
  /** One of many that come one after the other: a line of `text`, a line of JSON, or a document of YAML. */
  event<Item>(
    item: Item,
    shape: { readonly text: (item: Item) => string; readonly name: (item: Item) => string },
  ): Promise<void>;
  /** A line on standard error for a person. */
  note(line: string): Promise<void>;
}

export function createPrinter(format: Format, { stdout, stderr }: Pick<Io, "stdout" | "stderr">): Printer {
  const isTerminal = stdout.isTTY === true;
  const put = (text: string) => writeTo(stdout, text);
  const json = (value: unknown, indent?: number) => {
    const text = JSON.stringify(value, undefined, indent);
    return put(`${isTerminal ? escapeJson(text) : text}\n`);
  };
  const yaml = (value: unknown) => {
    const text = stringify(value);
    return put(isTerminal ? escapeLines(text) : text);
  };
  const names = (texts: readonly string[]) =>
    put(texts.map((text) => `${isTerminal ? escapeText(text) : text}\n`).join(""));

  return {
    format,
    list(items, shape) {
      if (format === "json") return json(items, 2);
      if (format === "yaml") return yaml(items);
      if (format === "name") return names(items.map(shape.name));
      return put(tableOf(items, shape));
    },
    one(item, shape) {
      if (format === "json") return json(item, 2);
      if (format === "yaml") return yaml(item);
      return this.list([item], shape);
    },
    event(item, shape) {
      if (format === "json") return json(item);
      if (format === "yaml") return put("---\n").then(() => yaml(item));
      if (format === "name") return names([shape.name(item)]);
      return put(`${escapeText(shape.text(item))}\n`);
    },
    note: (line) => writeTo(stderr, `${escapeText(line)}\n`),
  };
}

/** Columns as wide as their longest text, two blanks apart. A text of a tenant never breaks a row. */
export function tableOf<Item>(items: readonly Item[], { columns }: Shape<Item>): string {
  const rows = [
    columns.map(([title]) => title),
    ...items.map((item) => columns.map(([, text]) => escapeText(String(text(item) ?? "")) || "-")),
  ];
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => [...(row[column] ?? "")].length)));
  return rows
    .map((row) => {
      const cells = row.map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - [...cell].length));
      return `${cells.join("  ").trimEnd()}\n`;
    })
    .join("");
}

/** Such as `1.5 MiB`. */
export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${bytes} B` : `${value.toFixed(1)} ${units[unit]}`;
}
