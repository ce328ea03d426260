/**
 * The value below which a share of the samples lies, by nearest rank: always one of the samples, never a mean of two.
 *
 * @param sorted samples in ascending order
 * @param share from 0 (exclusive) to 1, such as 0.99
 * @throws RangeError without samples, or where the share is out of range
 */
export function percentile(sorted: readonly number[], share: number): number {
  if (sorted.length === 0) throw new RangeError("Cannot find a percentile: there are no samples");
  if (!(share > 0 && share <= 1)) throw new RangeError(`Cannot find a percentile: share ${share} is not in (0, 1]`);
  // 0.07 * 100 is 7.000000000000001: a rank is exact to within far less than one.
  const rank = Math.ceil(share * sorted.length - 1e-9);
  return sorted[Math.max(rank, 1) - 1] as number;
}
