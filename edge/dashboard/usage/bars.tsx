import { amountWords, dayWords, type Measure, measures, type Sum } from "./view.ts";

type Day = { readonly day: string; readonly sum: Sum };

const WIDTH = 10;
const HEIGHT = 100;

/**
 * A measure by day, as bars, and the same numbers as a table.
 *
 * @param props.hasTable false if the page shows the numbers elsewhere. @default true
 */
export function Bars(props: { days: readonly Day[]; measure: Measure; hasTable?: boolean }) {
  const { days, measure, hasTable = true } = props;
  const { word, of } = measures[measure];
  const bars = days.map(({ day, sum }) => ({ day, amount: of(sum) }));
  const highest = bars.reduce((most, bar) => (bar.amount > most.amount ? bar : most), { day: "", amount: 0 });
  const [first, last] = [bars.at(0)?.day ?? "", bars.at(-1)?.day ?? ""];
  const most = highest.amount === 0 ? "none" : `at most ${amountWords(highest.amount)}, on ${dayWords(highest.day)}`;
  return (
    <>
      <figure class="bars">
        <figcaption class="muted">
          {word} by day: {most}
        </figcaption>
        <svg
          viewBox={`0 0 ${bars.length * WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${word} by day, ${dayWords(first)} to ${dayWords(last)}: ${most}`}
        >
          {bars.map(({ day, amount }, at) => {
            // A day with little use is not drawn as a day without.
            const height = amount === 0 ? 0 : Math.max(1, (amount / highest.amount) * HEIGHT);
            return (
              <g key={day}>
                <title>
                  {dayWords(day)}: {amountWords(amount)} {word}
                </title>
                <rect class="day" x={at * WIDTH} width={WIDTH} height={HEIGHT} />
                <rect x={at * WIDTH + 1} y={HEIGHT - height} width={WIDTH - 2} height={height} />
              </g>
            );
          })}
        </svg>
        <p class="muted" aria-hidden="true">
          <span>{dayWords(first)}</span>
          {first !== last && <span>{dayWords(last)}</span>}
        </p>
      </figure>
      {hasTable && (
        <details>
          <summary>Each day</summary>
          <DayTable days={days} />
        </details>
      )}
    </>
  );
}

function DayTable({ days }: { days: readonly Day[] }) {
  return <SumTable unit="Day" rows={days.map(({ day, sum }) => ({ name: day, sum }))} />;
}

/** The sums of several days or months; dashes while one is read. */
export function SumTable({
  unit,
  rows,
}: {
  unit: "Day" | "Month";
  rows: readonly { readonly name: string; readonly sum: Sum | undefined }[];
}) {
  return (
    <table class="stack sums" aria-label={`Usage of each ${unit.toLowerCase()}`}>
      <thead>
        <tr>
          <th scope="col">{unit}</th>
          {Object.values(measures).map(({ word }) => (
            <th key={word} scope="col" class="number">
              {word}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, sum }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <Amounts of={sum} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A cell for each measure; dashes while the sum is read. */
export function Amounts({ of: sum }: { of: Sum | undefined }) {
  return (
    <>
      {Object.values(measures).map(({ word, of }) => (
        <td key={word} class="number" data-label={word}>
          {sum === undefined ? "–" : amountWords(of(sum))}
        </td>
      ))}
    </>
  );
}

/** The sums of all days; dashes while they are read, so that nothing moves. */
export function Totals({ of }: { of: Sum | undefined }) {
  return (
    <dl class="facts">
      {Object.entries(measures).map(([name, measure]) => (
        <div key={name}>
          <dt>{measure.word}</dt>
          <dd>{of === undefined ? "–" : amountWords(measure.of(of))}</dd>
        </div>
      ))}
    </dl>
  );
}
