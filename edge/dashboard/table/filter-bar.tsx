import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Live } from "../api/kinds.ts";
import { useKey } from "../parts/keys.ts";
import { navigate, place } from "../route.ts";
import type { Column } from "./columns.tsx";
import { type Filter, writeFilter } from "./filter.ts";

/** The address follows a field this long after its last key. */
const TYPING_MS = 150;
/** How often the choices are gathered anew while rows come and go. */
const CHOICES_MS = 2000;

/** The search field and the choices above a table. */
export function FilterBar<Row>(props: {
  live: Live<Row>;
  columns: readonly Column<Row>[];
  filter: Filter;
  label: string;
  /** How many rows it leaves. */
  count: number;
}) {
  const { live, columns, filter, label, count } = props;
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const choices = useSignal<{ at: number; of: ReadonlyMap<string, readonly string[]> }>({ at: 0, of: new Map() });
  const version = live.version.value;
  useEffect(() => {
    if (version > 0 && performance.now() - choices.value.at > CHOICES_MS) gather();
  }, [version]);
  useEffect(() => () => clearTimeout(timer.current), []);
  // Back and links change the address, not the field that somebody is typing in.
  useEffect(() => {
    const input = field.current;
    if (input !== null && document.activeElement !== input) input.value = filter.text;
  }, [filter.text]);
  useKey("/", "Filter", () => field.current?.focus());

  function gather(): void {
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
    const query = writeFilter({ ...filter, ...change }, { query: place.value.searchParams, columns });
    navigate(`${place.value.pathname}${query.size > 0 ? `?${query}` : ""}`, { replace: true });
  }

  function typed(text: string): void {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set({ text }), TYPING_MS);
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
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      {columns
        .filter((column) => column.choices === true)
        .map(({ key, title }) => {
          const chosen = [...(filter.fields.get(key) ?? [])];
          const value = chosen.join(",");
          const known = choices.value.of.get(key) ?? [];
          return (
            <select
              key={key}
              aria-label={title}
              value={value}
              onFocus={gather}
              onChange={(event) => {
                const fields = new Map(filter.fields);
                const next = event.currentTarget.value.split(",").filter((one) => one !== "");
                if (next.length === 0) fields.delete(key);
                else fields.set(key, new Set(next));
                set({ fields });
              }}
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
      <span class="muted">
        {count === total ? total.toLocaleString() : `${count.toLocaleString()} of ${total.toLocaleString()}`}
      </span>
    </search>
  );
}
