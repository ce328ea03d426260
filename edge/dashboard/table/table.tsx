import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Live } from "../api/live-list.ts";
import { useKey } from "../parts/keys.ts";
import { changeQuery, keepAs, keepNow, kept, navigate, place } from "../route.ts";
import { chosen } from "../shell/choices.tsx";
import type { Column } from "./columns.tsx";
import { applyFilter, type Filter, readFilter } from "./filter.ts";
import { clearFilter, FilterBar, isSeen } from "./filter-bar.tsx";
import { createView } from "./view.ts";

/** In root em, so that rows grow with the text size: normally 32 px, and 26 px where the user wants more of them. */
const ROW_REM = 32 / 13;
const COMPACT_ROW_REM = 26 / 13;
/** On a phone a row has two lines. */
const TALL_ROW_REM = 64 / 13;
const NARROW_REM = 640 / 13;
/** Extra rows above and below, so that fast scrolling shows no gap. */
const SPARE_ROWS = 8;

/** The scroll position is stored after this pause. */
const SETTLED_MS = 200;

/**
 * A live list of any length, filtered and sorted by the page's address. Only visible rows are in the document, which
 * `<table>` does not allow. The grid has the focus and names its active row.
 * https://www.w3.org/WAI/ARIA/apg/patterns/grid/
 */
export function Table<Row>(props: {
  live: Live<Row>;
  columns: readonly Column<Row>[];
  /** Path of a row's page. */
  open(row: Row): string;
  label: string;
  /** The column that orders the rows until another is chosen. @default none: they are ordered by name */
  orderedBy?: string;
  /** Shown when there are no rows at all. */
  empty: ComponentChildren;
}) {
  const { live, columns, open, label, orderedBy } = props;
  const { keyOf } = live;
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const size = useSignal({ width: innerWidth, height: innerHeight, rem: 13 });
  /** Rows above it come and go, so it is found by key; the index is used if the row itself is removed. */
  const active = useSignal<{ key: string; index: number } | undefined>(undefined);
  const view = useMemo(() => createView(keyOf), [live]);
  const resting = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const filled = useSignal(0);

  const query = place.value.search;
  const filter = useMemo(() => {
    const read = readFilter(new URLSearchParams(query), columns);
    return orderedBy === undefined ? read : { ...read, sort: read.sort ?? { key: orderedBy, descending: false } };
  }, [query, columns, orderedBy]);
  useLayoutEffect(() => {
    const { compare, keeps } = applyFilter(filter, columns);
    view.setOrder(compare, keeps);
    const { value: was } = active;
    if (was !== undefined && view.rows.length > 0 && view.indexOf(was.key) < 0) active.value = undefined;
    filled.value += 1;
  }, [view, filter, columns]);
  useLayoutEffect(() => {
    const end = live.follow(view);
    filled.value += 1;
    return end;
  }, [live, view]);
  useLayoutEffect(() => {
    const element = box.current as HTMLDivElement;
    const observer = new ResizeObserver(() => {
      const rem = Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
      size.value = { width: element.clientWidth, height: element.clientHeight, rem };
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const before = useRef<ReturnType<typeof kept> | undefined>(kept());
  useLayoutEffect(() => {
    const end = keepAs(() => before.current ?? { top: box.current?.scrollTop ?? 0, active: active.peek()?.key });
    return () => {
      end();
      clearTimeout(resting.current);
    };
  }, []);

  function keepSoon(): void {
    const { href } = location;
    clearTimeout(resting.current);
    resting.current = setTimeout(() => location.href === href && keepNow(), SETTLED_MS);
  }

  // Subscribe, so that a change of either renders the table.
  void live.version.value;
  void filled.value;
  const { rows } = view;
  const { rem } = size.value;
  const isNarrow = size.value.width < NARROW_REM * rem;
  const seen = columns.filter(isSeen);
  const shown = isNarrow ? seen.filter(({ phone }) => phone !== undefined) : seen;
  const wideRem = chosen.density.value === "compact" ? COMPACT_ROW_REM : ROW_REM;
  const headPx = isNarrow ? 0 : Math.round(wideRem * rem);
  const rowPx = Math.round((isNarrow ? TALL_ROW_REM : wideRem) * rem);
  const isRead = live.state.value !== "loading";
  const first = Math.max(0, Math.floor(top.value / rowPx) - SPARE_ROWS);
  const last = Math.min(rows.length, Math.ceil((top.value + size.value.height) / rowPx) + SPARE_ROWS);
  const activeAt = indexOfActive();
  const activeRow = activeAt < 0 ? undefined : rows[activeAt];

  function indexOfActive(): number {
    if (active.value === undefined) return -1;
    const at = view.indexOf(active.value.key);
    return at >= 0 ? at : Math.min(active.value.index, view.rows.length - 1);
  }

  // Back restores the scroll position once the rows have their height.
  const drawn = rows.length;
  useLayoutEffect(() => {
    if (before.current === undefined || drawn === 0) return;
    const { top: y, active: key } = before.current;
    before.current = undefined;
    if (y !== undefined && box.current !== null) box.current.scrollTop = y;
    if (key !== undefined && view.indexOf(key) >= 0) active.value = { key, index: view.indexOf(key) };
  });

  // If the active row is removed, the next row becomes active.
  useEffect(() => {
    // A key may have been pressed since the last render.
    const at = indexOfActive();
    const row = view.rows[at];
    if (row === undefined) return;
    const key = keyOf(row);
    if (active.value?.key !== key || active.value.index !== at) active.value = { key, index: at };
    if (kept().active !== key) keepSoon();
  });

  function move(step: number): void {
    // Keys may arrive faster than renders.
    const from = indexOfActive();
    const at = Math.max(0, Math.min(view.rows.length - 1, from < 0 ? Math.max(0, step - 1) : from + step));
    const row = view.rows[at];
    const element = box.current;
    if (row === undefined || element === null) return;
    active.value = { key: keyOf(row), index: at };
    const y = at * rowPx;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + rowPx > element.scrollTop + element.clientHeight - headPx)
      element.scrollTop = y + rowPx + headPx - element.clientHeight;
  }

  const page = Math.max(1, Math.floor(size.value.height / rowPx) - 2);
  const steps: Readonly<Record<string, number>> = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: page,
    PageUp: -page,
    Home: Number.NEGATIVE_INFINITY,
    End: Number.POSITIVE_INFINITY,
  };
  function byLetter(step: number): void {
    box.current?.focus();
    move(step);
  }
  useKey("j", "Next row", () => byLetter(1));
  useKey("k", "Row before", () => byLetter(-1));

  return (
    <div class="listing">
      <FilterBar
        {...{ live, columns, filter, label }}
        count={rows.length}
        hasOrder={isNarrow}
        isOrdered={orderedBy !== undefined}
        onDone={() => (activeAt < 0 ? byLetter(1) : box.current?.focus())}
      />
      <div
        class={isNarrow ? "grid narrow" : "grid"}
        role="grid"
        tabIndex={0}
        ref={box}
        aria-label={label}
        aria-rowcount={rows.length + 1}
        aria-activedescendant={activeAt >= first && activeAt < last ? `${id}-${keyOf(activeRow as Row)}` : undefined}
        style={{ "--row": `${rowPx}px` }}
        onScroll={(event) => {
          top.value = event.currentTarget.scrollTop;
          keepSoon();
        }}
        onKeyDown={(event) => {
          const step = steps[event.key];
          if (step !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
            event.preventDefault();
            move(step);
          } else if (event.key === "Enter" && event.target === box.current && activeRow !== undefined) {
            event.preventDefault();
            navigate(open(activeRow));
          }
        }}
      >
        <Head {...{ columns: shown, filter }} hidden={isNarrow} />
        <div class="space" role="rowgroup" style={{ height: `${rows.length * rowPx}px` }}>
          <div class="window" role="presentation" style={{ transform: `translateY(${first * rowPx}px)` }}>
            {rows.slice(first, last).map((row, offset) => {
              const key = keyOf(row);
              return (
                <div
                  key={key}
                  id={`${id}-${key}`}
                  class={first + offset === activeAt ? "row active" : "row"}
                  role="row"
                  aria-rowindex={first + offset + 2}
                  style={isNarrow ? {} : { gridTemplateColumns: tracks(seen) }}
                  onPointerDown={() => {
                    active.value = { key, index: first + offset };
                  }}
                >
                  {shown.map((column, at) => (
                    <div
                      key={column.key}
                      role="gridcell"
                      class={cellClass(column, isNarrow ? shown.slice(0, at) : undefined)}
                    >
                      <Cell of={row} column={column} href={column.href?.(row) ?? (at === 0 ? open(row) : undefined)} />
                    </div>
                  ))}
                </div>
              );
            })}
          </div>
        </div>
      </div>
      {rows.length === 0 && (
        <div class="nothing">
          {!isRead ? (
            <p class="muted">Loading…</p>
          ) : live.rows.size > 0 ? (
            <>
              <p>None of the {live.rows.size.toLocaleString()} matches the filter.</p>
              <button type="button" onClick={() => clearFilter(columns)}>
                Show all
              </button>
            </>
          ) : (
            props.empty
          )}
        </div>
      )}
    </div>
  );
}

function Cell<Row>({ of, column, href }: { of: Row; column: Column<Row>; href: string | undefined }) {
  const content = column.cell?.(of) ?? column.text(of);
  if (href === undefined) return <>{content}</>;
  return (
    <a href={href} tabIndex={-1}>
      {content}
    </a>
  );
}

function Head<Row>(props: { columns: readonly Column<Row>[]; filter: Filter; hidden: boolean }) {
  const { columns, filter, hidden } = props;
  return (
    <div
      class={hidden ? "head row unseen" : "head row"}
      role="row"
      aria-rowindex={1}
      style={hidden ? {} : { gridTemplateColumns: tracks(columns) }}
    >
      {columns.map((column) => {
        const isSorted = filter.sort?.key === column.key;
        const descending = isSorted && filter.sort?.descending === true;
        return (
          <div
            key={column.key}
            role="columnheader"
            class={column.isNumber === true ? "number" : ""}
            aria-sort={isSorted ? (descending ? "descending" : "ascending") : "none"}
          >
            <button
              type="button"
              class="sort"
              tabIndex={hidden ? -1 : 0}
              onClick={() => sortBy(column.key, isSorted && !descending)}
            >
              {column.title}
              <span aria-hidden="true">{isSorted ? (descending ? " ↓" : " ↑") : ""}</span>
            </button>
          </div>
        );
      })}
    </div>
  );
}

function sortBy(key: string, descending: boolean): void {
  changeQuery({ sort: descending ? `-${key}` : key });
}

function tracks<Row>(columns: readonly Column<Row>[]): string {
  return columns.map(({ width }) => width ?? "minmax(0, 1fr)").join(" ");
}

/** @param before the columns before it, to find out whether each is in the first or second line */
function cellClass<Row>({ isNumber, phone }: Column<Row>, before: readonly Column<Row>[] | undefined): string {
  if (before === undefined) return isNumber === true ? "number" : "";
  return before.some((other) => other.phone === phone) ? `line-${phone} end` : `line-${phone}`;
}
