// Words and shapes that make a reader read a sentence twice, with what to write instead. Used for the pages and for the
// comments and messages of the source.

interface Shape {
  /** A regular expression; a space in it also matches a line break, with the comment mark of the next line. */
  readonly pattern: string;
  readonly instead: string;
}

const SHAPES: readonly Shape[] = [
  { pattern: "whoever|whomever|whosever", instead: "name the person or the program: a caller, a client, anyone who …" },
  { pattern: "nobody", instead: "no client, no tenant, no one, or an active sentence" },
  { pattern: "anew", instead: "again, or: replaced, recreated" },
  { pattern: "meanwhile", instead: "in the meantime, while …, until then" },
  { pattern: "neither(?=[.;:)])", instead: "say it in the positive, or: also not" },
  { pattern: "nor (?:is|are|does|do|has|have|can|may)", instead: "a sentence of its own" },
  { pattern: "(?:is|are|was|were) to be had", instead: "is available" },
  {
    pattern: "wh(?:ich|o) (?:it|they|he) (?:has|have|does|do|is|are) not",
    instead: "a sentence of its own: it has no …",
  },
  { pattern: "that of which|those of which", instead: "name the thing" },
  { pattern: "such as (?:are|is|have|has)", instead: "those that …" },
  { pattern: "as one saw it", instead: "seen by this replica" },
  { pattern: "by the minute", instead: "each minute, per minute" },
  { pattern: "mend(?:s|ed|ing)?", instead: "fix, repair" },
  { pattern: "lets? (?:\\w+ )?in(?= |[.;,:)])(?! (?:a|an|the|this|its|place|one|order)\\b)", instead: "allow, accept" },
  { pattern: "believed", instead: "trusted, used" },
  { pattern: "heed(?:s|ed|ing)?", instead: "use, respect" },
  { pattern: "how it (?:fares|stands)", instead: "its state" },
  { pattern: "whose (?:it|they) (?:is|are|has|have|may|must)", instead: "who owns it" },
  { pattern: "dead pages?", instead: "pages in a sandbox" },
  { pattern: "tells? (?:how many|how much|how long|that|what|which|when|where|whether)", instead: "report, show, say" },
  { pattern: "unless told(?: to)?", instead: "unless set" },
];

const BREAK = String.raw`(?:[ \t]+|[ \t]*\r?\n[ \t]*(?:(?:\/\/|\*(?!\/)|#|>)[ \t]*)?)`;

const MATCHERS = SHAPES.map(({ pattern, instead }) => ({
  expression: new RegExp(`(?<![\\w-])(?:${pattern.replaceAll(" ", BREAK)})(?![\\w-])`, "gim"),
  instead,
}));

export interface PlainWordsFinding {
  /** Counted from 1. */
  readonly line: number;
  /** What the text says, on one line. */
  readonly words: string;
  readonly instead: string;
}

/** The words and shapes of the list in a text, in its order. */
export function findPlainWords(text: string): PlainWordsFinding[] {
  return MATCHERS.flatMap(({ expression, instead }) =>
    [...text.matchAll(expression)].map(({ 0: words, index }) => ({
      line: text.slice(0, index).split("\n").length,
      words: words.replace(/\s+/g, " "),
      instead,
    })),
  ).sort((a, b) => a.line - b.line);
}
