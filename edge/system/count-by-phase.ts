/** How many objects there are, and how many in each phase; one that has no status yet is `Pending`. */
export function countByPhase(objects: { values(): Iterable<{ status?: { phase?: string } }> }): {
  total: number;
  byPhase: Record<string, number>;
} {
  const byPhase: Record<string, number> = {};
  let total = 0;
  for (const { status } of objects.values()) {
    const phase = status?.phase ?? "Pending";
    byPhase[phase] = (byPhase[phase] ?? 0) + 1;
    total += 1;
  }
  return { total, byPhase };
}
