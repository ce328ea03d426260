/**
 * Says where and why a text is not JSON, such as `line 2, column 5: expected a comma or "}"`; undefined if it is JSON.
 *
 * The runtimes' own messages differ, and JavaScriptCore's has no position.
 */
export function jsonSyntaxError(text: string): string | undefined {
  const found = scan(text);
  if (found === undefined) return undefined;
  const before = text.slice(0, found.at);
  const line = before.split("\n").length;
  const column = found.at - before.lastIndexOf("\n");
  return `line ${line}, column ${column}: ${found.why}`;
}

interface Fault {
  at: number;
  why: string;
}

/** What the grammar allows next. `first-*` also allow the container to end. */
type Expect = "value" | "first-value" | "first-key" | "key" | "colon" | "next";

const LITERAL = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\r\n]*/y;

/** Iterative, since a body of a million open brackets must not exhaust the call stack. */
function scan(text: string): Fault | undefined {
  const open: ("}" | "]")[] = [];
  let expect = "value" as Expect;
  for (let at = skip(SPACE, text, 0); ; at = skip(SPACE, text, at)) {
    const closer = open.at(-1);
    if (expect === "next" && closer === undefined) {
      return at === text.length ? undefined : { at, why: "unexpected text after the JSON value" };
    }
    const character = text[at];
    if (character === undefined) return { at, why: `ends where ${wanted(expect, closer)} is expected` };
    if (expect === "colon" && character === ":") {
      expect = "value";
      at += 1;
    } else if (expect === "next" && character === ",") {
      expect = closer === "}" ? "key" : "value";
      at += 1;
    } else if (character === closer && (expect === "next" || expect === "first-key" || expect === "first-value")) {
      open.pop();
      expect = "next";
      at += 1;
    } else if (character === '"' && expect !== "next" && expect !== "colon") {
      const end = scanString(text, at);
      if (typeof end !== "number") return end;
      expect = expect === "key" || expect === "first-key" ? "colon" : "next";
      at = end;
    } else if ((expect === "value" || expect === "first-value") && (character === "{" || character === "[")) {
      open.push(character === "{" ? "}" : "]");
      expect = character === "{" ? "first-key" : "first-value";
      at += 1;
    } else {
      const end = expect === "value" || expect === "first-value" ? skip(LITERAL, text, at) : at;
      if (end === at) return { at, why: `expected ${wanted(expect, closer)}` };
      expect = "next";
      at = end;
    }
  }
}

/** The offset after the string that starts at `start`, or the error inside it. */
function scanString(text: string, start: number): number | Fault {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) return { at, why: "a control character in a string must be escaped" };
    if (code === 0x5c) {
      if (!/^(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/.test(text.slice(at + 1, at + 6)))
        return { at, why: "unknown escape in a string" };
      at += 1;
    }
  }
  return { at: start, why: "the string that starts here does not end" };
}

function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return at + (pattern.exec(text)?.[0].length ?? 0);
}

function wanted(expect: Expect, closer: string | undefined): string {
  switch (expect) {
    case "value":
      return "a value";
    case "first-value":
      return 'a value or "]"';
    case "first-key":
      return 'a key in double quotes or "}"';
    case "key":
      return "a key in double quotes";
    case "colon":
      return "a colon";
    case "next":
      return `a comma or "${closer}"`;
    default:
      return expect satisfies never;
  }
}
