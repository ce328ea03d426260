/** Characters shown from the start and from the end: errors name their cause last. */
const EDGE = 110;

/** A text of more than two lines is shortened, and shown whole on request. */
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
