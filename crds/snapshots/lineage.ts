import { randomBytes } from "node:crypto";
import * as v from "valibot";

/** Saves in one store after another: a part for each store that the archive was in use in, the first store first. */
export const lineageSchema = v.array(
  v.object({
    /** Random. Two stores that go on from the same archive begin parts with different ids. */
    id: v.string(),
    saves: v.pipe(v.number(), v.integer(), v.minValue(1)),
  }),
);
export type Lineage = v.InferOutput<typeof lineageSchema>;

/** What an archive's record says of where it comes from. */
export interface Descent {
  /** Absent of archives that older programs wrote. */
  readonly lineage?: Lineage | undefined;
  /** Whether it was copied from another store. The next save in this store begins a part of the lineage. */
  readonly copied?: true | undefined;
}

/** How one archive stands to another; `unknown` where either has no lineage. */
export type Relation = "before" | "after" | "unrelated" | "unknown";

/**
 * The lineage of an archive that takes the place of another.
 *
 * @param described a copy says its lineage itself
 */
export function descentOf(described: Descent, replaced: Descent | undefined): Descent {
  if (described.copied === true) return described;
  const parts = replaced?.lineage ?? [];
  const last = parts.at(-1);
  if (last === undefined || replaced?.copied === true) {
    return { lineage: [...parts, { id: randomBytes(8).toString("hex"), saves: 1 }] };
  }
  return { lineage: [...parts.slice(0, -1), { ...last, saves: last.saves + 1 }] };
}

/** How `one` stands to `other`. Clocks have no part in it. */
export function relationOf({ lineage: one }: Descent, { lineage: other }: Descent): Relation {
  if (one === undefined || other === undefined) return "unknown";
  if (leadsTo(one, other)) return leadsTo(other, one) ? "unrelated" : "before";
  return leadsTo(other, one) ? "after" : "unrelated";
}

/** Whether `later` goes on from `earlier`, or is equal to it. */
function leadsTo(earlier: Lineage, later: Lineage): boolean {
  return earlier.every(({ id, saves }, index) => {
    const same = later[index];
    const isLast = index === earlier.length - 1;
    return same?.id === id && (isLast ? saves <= same.saves : saves === same.saves);
  });
}
