/**
 * Splits a command as a shell does
 * (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_02): blanks between words, quotes
 * and backslashes, without expansion.
 *
 * @returns the words, or the syntax error
 */
export function shellWords(line: string): { words: string[] } | { problem: string } {
  const words: string[] = [];
  let word: string | undefined;
  let quote: "'" | '"' | undefined;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] as string;
    if (quote === "'") {
      if (char === "'") quote = undefined;
      else word += char;
      continue;
    }
    if (char === "\\") {
      const next = line[at + 1];
      if (next === undefined) return { problem: "nothing follows the backslash" };
      // In double quotes a backslash escapes only these characters.
      word = (word ?? "") + (quote === '"' && !'"\\$`'.includes(next) ? `\\${next}` : next);
      at += 1;
      continue;
    }
    if (quote === '"') {
      if (char === '"') quote = undefined;
      else word += char;
      continue;
    }
    if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (/\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== undefined) return { problem: `the quote ${quote} is not closed` };
  if (word !== undefined) words.push(word);
  return { words };
}
