/** Characters that are shown in the cell of the one before, and how many of them. */
const marks = /[\p{M}\p{Cf}]+/gu;
const MOST_MARKS = 8;

/** Returns a function that decodes output, piece by piece, as text in which no cell grows without a limit. */
export function createOutputText(): (bytes: Uint8Array) => string {
  const decoder = new TextDecoder();
  let atEnd = 0;
  return (bytes) => {
    const text = decoder.decode(bytes, { stream: true });
    const before = atEnd;
    if (text !== "") atEnd = 0;
    return text.replace(marks, (run, at: number) => {
      const many = at === 0 ? before : 0;
      if (at + run.length === text.length) atEnd = many + run.length;
      return [...run].slice(0, Math.max(0, MOST_MARKS - many)).join("");
    });
  };
}
