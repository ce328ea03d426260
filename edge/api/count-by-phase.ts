/** Something that an index by phase counts. */
interface Phased {
  readonly size: number;
  by(index: "phase", phase: string): { readonly size: number };
}

/**
 * How many objects there are, and how many in each phase that has any: read off the index, so that it costs the same for ten
 * objects and ten thousand, on a route that asks for no key.
 */
export function countByPhase(
  store: Phased,
  phases: readonly string[],
): { total: number; byPhase: Record<string, number> } {
  const byPhase: Record<string, number> = {};
  for (const phase of phases) {
    const { size } = store.by("phase", phase);
    if (size > 0) byPhase[phase] = size;
  }
  return { total: store.size, byPhase };
}
