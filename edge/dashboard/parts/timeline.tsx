import type { Segment } from "./segment.ts";
import { durationWords } from "./time-words.ts";

/** Segments below each other on one scale, as a table with SVG bars, so that the numbers can be read too. */
export function Timeline({ segments, nowMs, label }: { segments: readonly Segment[]; nowMs: number; label: string }) {
  const start = Math.min(...segments.map(({ fromMs }) => fromMs));
  const end = Math.max(...segments.map(({ toMs }) => toMs ?? nowMs), start + 1);
  const span = end - start;
  const hasNotes = segments.some(({ note }) => note !== undefined);
  return (
    <table class="timeline" aria-label={label}>
      <tbody>
        {segments.map(({ name, fromMs, toMs, kind, note }) => (
          <tr key={`${name} ${fromMs}`}>
            <th scope="row">{name}</th>
            <td class="number">{toMs === undefined ? "…" : durationWords(Math.max(0, toMs - fromMs))}</td>
            <td class="bar">
              <svg viewBox={`0 0 ${span} 10`} preserveAspectRatio="none" aria-hidden="true">
                <rect
                  class={`segment is-${kind}`}
                  x={fromMs - start}
                  width={Math.max(span / 200, (toMs ?? nowMs) - fromMs)}
                  height={10}
                />
              </svg>
            </td>
            {hasNotes && <td class="note muted">{note}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
