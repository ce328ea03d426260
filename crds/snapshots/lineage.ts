import { randomBytes } from "node:crypto";
import * as v from "valibot";

/** The saves that led to an archive: a part for each store that the archive was used in, the first store first. */
export const lineageSchema = v.array(
  v.object({
    /** Random. If two stores continue from the same archive, they begin parts with different ids. */
    id: v.string(),
    saves: v.pipe(v.number(), v.integer(), v.minValue(1)),
  }),
);
export type Lineage = v.InferOutput<typeof lineageSchema>;

/** The part of an archive's metadata that says where the archive comes from. */
export interface Descent {
  /** Undefined for archives that older versions wrote. */
  readonly lineage?: Lineage | undefined;
  /** Whether it was copied from another store. The next save in this store begins a part of the lineage. */
  readonly copied?: true | undefined;
}

/** How one archive relates to another; `unknown` if one of them has no lineage. */
export type Relation = "before" | "after" | "unrelated" | "unknown";

/**
 * The lineage of an archive that replaces another.
 *
 * @param described a copied archive keeps the lineage that it has
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

/** How `one` relates to `other`. It does not depend on clocks. */
export function relationOf({ lineage: one }: Descent, { lineage: other }: Descent): Relation {
  if (one === undefined || other === undefined) return "unknown";
  if (leadsTo(one, other)) return leadsTo(other, one) ? "unrelated" : "before";
  return leadsTo(other, one) ? "after" : "unrelated";
}

/** Whether `later` continues from `earlier` or is equal to it. */
function leadsTo(earlier: Lineage, later: Lineage): boolean {
  return earlier.every(({ id, saves }, index) => {
    const same = later[index];
    const isLast = index === earlier.length - 1;
    return same?.id === id && (isLast ? saves <= same.saves : saves === same.saves);
  });
}
