/**
 * A text of more than two lines is shortened, and shown whole on request.
 *
 * @param props.edge characters shown from the start and from the end: errors name their cause last. @default 110
 */
export function Long({ of, edge = 110 }: { of: string; edge?: number }) {
  if (of.length <= 2 * edge + 20) return <>{of}</>;
  return (
    <details class="long">
      <summary>
        {of.slice(0, edge)} … {of.slice(-edge)}
      </summary>
      {of}
    </details>
  );
}
