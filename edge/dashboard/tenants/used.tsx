import { clockAheadMs } from "../api/kinds.ts";
import type { Loaded } from "../api/load.ts";
import { Unread } from "../parts/problem.tsx";
import { Amounts, Bars } from "../usage/bars.tsx";
import type { UsagePage } from "../usage/read-usage.ts";
import { type Days, dayAt, daysOf, eachDay, measures, total } from "../usage/view.ts";

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
  const rows = [
    { name: "This month", of: sums.filter(({ day = "" }) => day >= now.from) },
    { name: "Last month", of: sums.filter(({ day = "" }) => day < now.from) },
  ];
  return (
    <section aria-labelledby="usage">
      <h2 id="usage">
        Usage <small class="muted">days of UTC</small>
      </h2>
      <Unread error={error} />
      {error === undefined && (
        <>
          <table class="stack sums" aria-label="Usage of each month">
            <thead>
              <tr>
                <th scope="col">Month</th>
                {Object.values(measures).map(({ word }) => (
                  <th key={word} scope="col" class="number">
                    {word}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ name, of }) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <Amounts of={value && total(of)} />
                </tr>
              ))}
            </tbody>
          </table>
          <Bars days={eachDay({ from: last.from, to: now.to }, sums)} measure="vcpu" />
        </>
      )}
    </section>
  );
}
