import { compareText } from "./view.ts";

/** The rows that a table shows, and their order, as stored in the page's query. */
export interface Filter {
  /** Text that a visible column contains, in any case. */
  readonly text: string;
  /** By column: the accepted values. */
  readonly fields: ReadonlyMap<string, ReadonlySet<string>>;
  readonly sort: { readonly key: string; readonly descending: boolean } | undefined;
}

/** The part of a column that filters use. */
export interface FilterColumn<Row> {
  readonly key: string;
  /** What is shown and searched; also the sort key without `order`. */
  text(row: Row): string;
  /** The sort key. */
  order?(row: Row): string | number;
  /**
   * The values that the address may name, also offered above the table: `true` for any value of a row, or the listed
   * ones. `address`: any value, not offered. @default nothing
   */
  readonly choices?: true | readonly string[] | "address";
  /** Neither shown nor searched; only for the address. @default false */
  readonly isHidden?: boolean;
}

/** Reads a filter; unknown columns and values are ignored. */
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

/** Writes a filter into a copy of the query and leaves the other parameters unchanged. */
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

/** Applies a filter to a view. */
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
