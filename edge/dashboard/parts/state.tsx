import type { Column } from "../table/columns.tsx";
import { type Health, healthOf, type Known } from "./health.ts";

/** A shape beside the word, so that neither depends on colour. */
export const shapes: Readonly<Record<Health["is"], string>> = { bad: "▲", warn: "◐", ok: "●", plain: "□" };
/** The worst first. */
const ranks: readonly Health["is"][] = ["bad", "warn", "ok", "plain"];
/** What rows of each health have in common; lists are filtered by these words. */
export const healthWords: Readonly<Record<Health["is"], string>> = {
  bad: "failing",
  warn: "unsettled",
  ok: "running",
  plain: "ended or ending",
};

export function State({ of }: { of: Known }) {
  const { is, word, why } = healthOf(of);
  return (
    <span class={`state is-${is}`} title={why}>
      <span class="chip">
        <span aria-hidden="true">{shapes[is]}</span> {word}
      </span>
      {why !== undefined && <span class="why"> · {why}</span>}
    </span>
  );
}

/** The state column, and two hidden ones that links may filter by: the API's phase, and the health. */
export function stateColumns<Row>(known: (row: Row) => Known, options: { phases: readonly string[] }): Column<Row>[] {
  const { phases } = options;
  return [
    {
      ...{ key: "state", title: "State", choices: true, phone: 1, width: "minmax(11rem, 1fr)" },
      text: (row) => healthOf(known(row)).word,
      order(row) {
        const { is, word } = healthOf(known(row));
        return `${ranks.indexOf(is)} ${word}`;
      },
      cell: (row) => <State of={known(row)} />,
    },
    { key: "phase", title: "Phase", choices: phases, isHidden: true, text: (row) => known(row).phase },
    {
      ...{ key: "health", title: "Health", choices: Object.values(healthWords), isHidden: true },
      text: (row) => healthWords[healthOf(known(row)).is],
    },
  ];
}
