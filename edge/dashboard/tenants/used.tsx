import { clockAheadMs } from "../api/kinds.ts";
import type { Loaded } from "../api/load.ts";
import { Unread } from "../parts/problem.tsx";
import { Bars, SumTable } from "../usage/bars.tsx";
import type { UsagePage } from "../usage/read-usage.ts";
import { type Days, dayAt, daysOf, eachDay, total } from "../usage/view.ts";

/** The days of this month and of the last one. */
export interface Months {
  readonly last: Days;
  readonly now: Days;
}

export function monthsOf(): Months {
  const today = dayAt(Date.now() + clockAheadMs.peek());
  const days = (range: "month" | "last-month") => daysOf({ range, first: "", last: "" }, today) as Days;
  return { last: days("last-month"), now: days("month") };
}

/** What a tenant used this month and last. */
export function Used({ months, usage: { value, error } }: { months: Months; usage: Loaded<UsagePage> }) {
  const { last, now } = months;
  const sums = value?.sums ?? [];
  const sumOf = (isIn: (day: string) => boolean) => value && total(sums.filter(({ day = "" }) => isIn(day)));
  const rows = [
    { name: "This month", sum: sumOf((day) => day >= now.from) },
    { name: "Last month", sum: sumOf((day) => day < now.from) },
  ];
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">
        Usage <small class="muted">days of UTC</small>
      </h2>
      <Unread error={error} />
      {error === undefined && (
        <>
          <SumTable unit="Month" rows={rows} />
          <Bars days={eachDay({ from: last.from, to: now.to }, sums)} measure="vcpu" />
        </>
      )}
    </section>
  );
}
