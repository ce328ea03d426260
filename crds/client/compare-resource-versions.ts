const decimal = /^(0|[1-9][0-9]*)$/;

/**
 * Less than, equal to or greater than 0 as `a` is older than, the same as or newer than `b`; undefined when they have no order.
 *
 * Follows KEP-5504: a resourceVersion is a decimal of any length, comparable within one resource. What is not one (an aggregated
 * API's, a test's) can only be the same or not.
 */
export function compareResourceVersions(a: string, b: string): number | undefined {
  if (a === b) return 0;
  if (!decimal.test(a) || !decimal.test(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : 1;
}
