/** So many characters at the start and at the end: errors name their cause last. */
const EDGE = 110;

/** A text that is shown whole when it is asked for, where it is longer than two lines. */
export function Long({ of }: { of: string }) {
  if (of.length <= 2 * EDGE + 20) return <>{of}</>;
  return (
    <details class="long">
      <summary>
        {of.slice(0, EDGE)} … {of.slice(-EDGE)}
      </summary>
      {of}
    </details>
  );
}
