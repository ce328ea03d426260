import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Live } from "../api/live-list.ts";
import { useKey } from "../parts/keys.ts";
import { navigate, place } from "../route.ts";
import type { Column } from "./columns.tsx";
import { type Filter, readFilter, writeFilter } from "./filter.ts";

/** Delay between the last key and the change of the address. */
const TYPING_MS = 150;
/** How often the choices are collected again while rows change. */
const CHOICES_MS = 2000;

/** Shows all rows in the default order. */
export function clearFilter<Row>(columns: readonly Column<Row>[]): void {
  write({ ...readFilter(place.value.searchParams, columns), text: "", fields: new Map() }, columns);
}

export function FilterBar<Row>(props: {
  live: Live<Row>;
  columns: readonly Column<Row>[];
  filter: Filter;
  label: string;
  /** Number of matching rows. */
  count: number;
  /** Whether the order is chosen here, because no column headers are shown. */
  hasOrder: boolean;
  /** Whether there is always a column that orders the rows. */
  isOrdered: boolean;
  /** Called when the keyboard should go to the rows. */
  onDone(): void;
}) {
  const { live, columns, filter, label, count } = props;
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const gathering = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const choices = useSignal<{ at: number; of: ReadonlyMap<string, readonly string[]> }>({
    at: -CHOICES_MS,
    of: new Map(),
  });
  const version = live.version.value;
  useEffect(() => {
    const sinceMs = performance.now() - choices.peek().at;
    if (version > 0 && sinceMs >= CHOICES_MS) gather();
    else if (version > 0) gathering.current ??= setTimeout(gather, CHOICES_MS - sinceMs);
  }, [version]);
  useEffect(() => () => clearTimeout(gathering.current), []);
  useEffect(() => () => clearTimeout(timer.current), []);
  // Back and links change the address; the field that has the focus is left alone.
  useEffect(() => {
    const input = field.current;
    if (input !== null && document.activeElement !== input) input.value = filter.text;
  }, [filter.text]);
  useKey("/", "Filter", () => field.current?.focus());

  function gather(): void {
    clearTimeout(gathering.current);
    gathering.current = undefined;
    const of = new Map<string, readonly string[]>();
    for (const column of columns) {
      if (column.choices !== true) continue;
      const values = new Set<string>();
      for (const row of live.rows.values()) values.add(column.text(row));
      values.delete("");
      of.set(column.key, [...values].sort());
    }
    choices.value = { at: performance.now(), of };
  }

  function set(change: Partial<Filter>): void {
    // Use the current address: a field updates it with a delay.
    write({ ...readFilter(place.value.searchParams, columns), ...change }, columns);
  }

  function typed(text: string): void {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set({ text }), TYPING_MS);
  }

  function choose(key: string, values: readonly string[]): void {
    const fields = new Map(filter.fields);
    if (values.length === 0) fields.delete(key);
    else fields.set(key, new Set(values));
    set({ fields });
  }

  const total = live.rows.size;
  return (
    <search class="filter">
      <input
        ref={field}
        type="search"
        aria-label={`Filter ${label.toLowerCase()}`}
        placeholder="Filter  /"
        defaultValue={filter.text}
        onInput={(event) => typed(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (!["Escape", "Enter", "ArrowDown"].includes(event.key)) return;
          // Browsers clear a search field on Escape; keep the filter.
          event.preventDefault();
          if (event.key === "Escape") event.currentTarget.blur();
          else props.onDone();
        }}
      />
      {columns.map(({ key, title, choices: offered, isHidden }) => {
        const chosen = [...(filter.fields.get(key) ?? [])];
        const value = chosen.join(",");
        if (offered === undefined) return null;
        if (offered === "address" || isHidden === true) {
          return value === "" ? null : (
            <button type="button" key={key} title="Show all" onClick={() => choose(key, [])}>
              {title}: {chosen.join(" or ")} <span aria-hidden="true">×</span>
            </button>
          );
        }
        const known = offered === true ? (choices.value.of.get(key) ?? []) : offered;
        // Also while no row has a value: it would push the rows down when one comes.
        return (
          <select
            key={key}
            aria-label={title}
            value={value}
            onFocus={gather}
            onChange={({ currentTarget }) => choose(key, currentTarget.value.split(",").filter(Boolean))}
          >
            <option value="">{title}: any</option>
            {value !== "" && !known.includes(value) && <option value={value}>{chosen.join(" or ")}</option>}
            {known.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        );
      })}
      {props.hasOrder && <Order {...{ columns, filter, set }} isOrdered={props.isOrdered} />}
      <span class="muted">
        {count === total ? total.toLocaleString() : `${count.toLocaleString()} of ${total.toLocaleString()}`}
      </span>
    </search>
  );
}

function Order<Row>(props: {
  columns: readonly Column<Row>[];
  filter: Filter;
  isOrdered: boolean;
  set(change: Partial<Filter>): void;
}) {
  const { sort } = props.filter;
  return (
    <select
      aria-label="Order"
      value={sort === undefined ? "" : `${sort.descending ? "-" : ""}${sort.key}`}
      onChange={({ currentTarget: { value } }) => {
        const key = value.replace(/^-/, "");
        props.set({ sort: key === "" ? undefined : { key, descending: key !== value } });
      }}
    >
      {!props.isOrdered && <option value="">Order by name</option>}
      {props.columns.filter(isSeen).flatMap(({ key, title }) => [
        <option key={key} value={key}>
          {title} ↑
        </option>,
        <option key={`-${key}`} value={`-${key}`}>
          {title} ↓
        </option>,
      ])}
    </select>
  );
}

export function isSeen<Row>({ isHidden }: Column<Row>): boolean {
  return isHidden !== true;
}

function write<Row>(filter: Filter, columns: readonly Column<Row>[]): void {
  const query = writeFilter(filter, { query: place.value.searchParams, columns });
  navigate(`${place.value.pathname}${query.size > 0 ? `?${query}` : ""}`, { replace: true });
}
