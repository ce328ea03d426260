const WIDTH = 100;
const HEIGHT = 32;

/**
 * A small line chart of numbers, oldest first; `null` is a gap.
 *
 * @param label what the numbers are; lowest, highest and newest are added for screen readers
 */
export function Sparkline(props: { values: readonly (number | null)[]; label: string; unit?: string }) {
  const { values, label, unit = "" } = props;
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const highest = Math.max(...known);
  const step = WIDTH / Math.max(1, values.length - 1);
  const y = (value: number): string => (HEIGHT - 2 - (value / Math.max(1, highest)) * (HEIGHT - 4)).toFixed(1);
  // A single point is drawn as a short stroke.
  const path = values
    .map((value, at) => {
      if (value === null) return "";
      const x = (at * step).toFixed(1);
      const isStart = at === 0 || values[at - 1] === null;
      return isStart ? `M${x} ${y(value)}h0.1` : `L${x} ${y(value)}`;
    })
    .join("");
  const words = `${label}: lowest ${Math.min(...known)}${unit}, highest ${highest}${unit}, newest ${known.at(-1)}${unit}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={words}>
      <title>{words}</title>
      <path d={path} />
    </svg>
  );
}
