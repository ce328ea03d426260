/** How long a text is in JSON, in bytes. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}

/** The longest start of a text that is at most so many bytes in JSON. */
export function startOf(text: string, most: number): string {
  const start = text.slice(0, longest(text, { most, part: (length) => text.slice(0, length) }));
  // No character is cut in two.
  return /[\ud800-\udbff]$/.test(start) ? start.slice(0, -1) : start;
}

/** The longest end of a text that is at most so many bytes in JSON. */
export function endOf(text: string, most: number): string {
  const length = longest(text, { most, part: (length) => text.slice(text.length - length) });
  return text.slice(text.length - length).replace(/^[\udc00-\udfff]/, "");
}

function longest(text: string, { most, part }: { most: number; part: (length: number) => string }): number {
  let [fits, over] = [0, Math.min(text.length, most) + 1];
  while (over - fits > 1) {
    const middle = (fits + over) >> 1;
    if (jsonBytes(part(middle)) <= most) fits = middle;
    else over = middle;
  }
  return fits;
}

/** A text that grows, of which the start and the end are kept. */
export interface BoundedText {
  add(piece: string): void;
  /**
   * What has come, with a note in place of what was left out of its middle.
   *
   * @param most bytes in JSON, without the note
   */
  cut(most: number): { readonly text: string; readonly isCut: boolean };
}

/**
 * @param most how many characters of the start, and as many of the end, are kept
 * @param options.keepsStart @default true
 */
export function createBoundedText(most: number, { keepsStart = true } = {}): BoundedText {
  const mostOfStart = keepsStart ? most : 0;
  let start = "";
  let end = "";
  let dropped = 0;
  return {
    add(piece) {
      const room = mostOfStart - start.length;
      start += piece.slice(0, room);
      end += piece.slice(room);
      if (end.length <= 2 * most) return;
      dropped += end.length - most;
      end = end.slice(-most);
    },
    cut(mostBytes) {
      if (dropped === 0 && jsonBytes(start + end) <= mostBytes) return { text: start + end, isCut: false };
      const first = startOf(start, keepsStart ? mostBytes / 2 : 0);
      const rest = start.slice(first.length) + end;
      const last = endOf(rest, mostBytes - jsonBytes(first));
      const note = `[${dropped + rest.length - last.length} characters are left out here]`;
      return { text: [...(first === "" ? [] : [first]), note, last].join("\n"), isCut: true };
    },
  };
}
