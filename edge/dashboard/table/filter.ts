import { compareText } from "./view.ts";

/** What of a table is shown, and in which order; the query of the page's address says it. */
export interface Filter {
  /** A part of what some column shows, in any case. */
  readonly text: string;
  /** By column: the values of which a row has to show one. */
  readonly fields: ReadonlyMap<string, ReadonlySet<string>>;
  readonly sort: { readonly key: string; readonly descending: boolean } | undefined;
}

/** The part of a column that filters look at. */
export interface FilterColumn<Row> {
  readonly key: string;
  /** What is shown, searched and, without `order`, sorted by. */
  text(row: Row): string;
  /** What is sorted by. */
  order?(row: Row): string | number;
  /**
   * What the address may name of it, which is offered above the table too: any value that a row has, or those listed.
   * `address`: any value, which is not offered. @default nothing
   */
  readonly choices?: true | readonly string[] | "address";
  /** Whether it is neither shown nor searched, for the page's address alone. @default false */
  readonly isHidden?: boolean;
}

/** Reads a filter; what names no column or no value of it is ignored. */
export function readFilter<Row>(query: URLSearchParams, columns: readonly FilterColumn<Row>[]): Filter {
  const fields = new Map<string, ReadonlySet<string>>();
  for (const { key, choices } of columns) {
    if (choices === undefined) continue;
    const isKnown = (value: string): boolean => (typeof choices === "object" ? choices.includes(value) : value !== "");
    const values = (query.get(key) ?? "").split(",").filter(isKnown);
    if (values.length > 0) fields.set(key, new Set(values));
  }
  const [, minus, key] = /^(-?)(.+)$/.exec(query.get("sort") ?? "") ?? [];
  const isKnown = columns.some((column) => column.key === key);
  return {
    text: query.get("q") ?? "",
    fields,
    sort: key !== undefined && isKnown ? { key, descending: minus === "-" } : undefined,
  };
}

/** Writes a filter into a copy of the query, where everything else stays as it is. */
export function writeFilter<Row>(
  filter: Filter,
  options: { query: URLSearchParams; columns: readonly FilterColumn<Row>[] },
): URLSearchParams {
  const query = new URLSearchParams(options.query);
  const set = (name: string, value: string): void => (value === "" ? query.delete(name) : query.set(name, value));
  set("q", filter.text);
  for (const { key, choices } of options.columns) {
    if (choices !== undefined) set(key, [...(filter.fields.get(key) ?? [])].join(","));
  }
  set("sort", filter.sort === undefined ? "" : `${filter.sort.descending ? "-" : ""}${filter.sort.key}`);
  return query;
}

/** What a filter comes to, for a view. */
export function applyFilter<Row>(
  filter: Filter,
  columns: readonly FilterColumn<Row>[],
): { compare(a: Row, b: Row): number; keeps(row: Row): boolean } {
  const text = filter.text.toLowerCase();
  const fields = columns.flatMap((column) => {
    const values = filter.fields.get(column.key);
    return values === undefined ? [] : [{ column, values }];
  });
  const sorted = columns.find(({ key }) => key === filter.sort?.key);
  const sign = filter.sort?.descending === true ? -1 : 1;
  return {
    keeps: (row) =>
      fields.every(({ column, values }) => values.has(column.text(row))) &&
      (text === "" ||
        columns.some(({ isHidden, text: textOf }) => isHidden !== true && textOf(row).toLowerCase().includes(text))),
    compare(a, b) {
      if (sorted === undefined) return 0;
      const [x, y] = sorted.order === undefined ? [sorted.text(a), sorted.text(b)] : [sorted.order(a), sorted.order(b)];
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : compareText(String(x), String(y)));
    },
  };
}
