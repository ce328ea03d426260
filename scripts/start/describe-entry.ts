// What the log entries of operator and edge say, in words for a person.

/** An entry of a program's log: its JSON, parsed. */
export type LogEntry = Readonly<Record<string, unknown>> & { readonly msg: string };

/** An entry in words. */
export interface DescribedEntry {
  /** The object that it is about, such as `trigger nightly`; undefined if it is about the program. */
  readonly who: string | undefined;
  readonly what: string;
  /** More fields of the entry, in brackets, or nothing. */
  readonly details: string;
}

/** Fields that name the object of an entry, the most telling first. */
const SUBJECTS = ["trigger", "claim", "pool", "workload", "pod", "secret", "lease", "occurrence"];
/** Fields that help a program and not a person: the JSON has them. */
const UNSHOWN = new Set([
  ...["level", "time", "program", "msg", "error", "problem", "stack"],
  ...["retryAfterMs", "delayMs", "pauseMs", "requestId", "event", "update", "uid"],
]);
const LONGEST = 600;

/** @returns undefined for a line that is not an entry of a log */
export function parseEntry(line: string): LogEntry | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === "object" && parsed !== null && "msg" in parsed && typeof parsed.msg === "string"
      ? (parsed as LogEntry)
      : undefined;
  } catch {
    return undefined;
  }
}

/** @param options.root the folder that places in the code are relative to */
export function describeEntry(entry: LogEntry, options: { root: string }): DescribedEntry {
  const { who, fields } = subjectOf(entry);
  const because = [wordsOf(entry.problem), errorWords(entry.error, options)].filter((words) => words !== "");
  const details = Object.entries(entry).flatMap(([name, value]) => {
    const words = fields.has(name) || UNSHOWN.has(name) ? "" : wordsOf(value);
    return words === "" ? [] : [`${name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)} ${words}`];
  });
  return { who, what: cut([entry.msg, ...because].join(": ")), details: cut(details.join(", ")) };
}

function subjectOf(entry: LogEntry): { who: string | undefined; fields: ReadonlySet<string> } {
  const { controller, key, tenantId, workloadRef } = entry;
  if (typeof controller === "string" && typeof key === "string")
    return { who: `${controller} ${key}`, fields: new Set(["controller", "key"]) };
  const name = SUBJECTS.find((one) => typeof entry[one] === "string");
  if (name !== undefined) return { who: `${name} ${entry[name]}`, fields: new Set([name]) };
  if (typeof tenantId !== "string") return { who: undefined, fields: new Set() };
  const of = typeof workloadRef === "string" ? `, workload ${workloadRef}` : "";
  return { who: `tenant ${tenantId}${of}`, fields: new Set(["tenantId", "workloadRef"]) };
}

/** The message, what caused it, and where it was thrown if the program did not expect it. */
function errorWords(error: unknown, { root }: { root: string }): string {
  if (typeof error !== "object" || error === null) return wordsOf(error);
  const { message, cause, stack } = error as { message?: unknown; cause?: unknown; stack?: unknown };
  const said = wordsOf(message);
  const why = wordsOf(cause);
  const place = typeof stack === "string" ? placeOf(stack, root) : undefined;
  const words = why === "" || said.includes(why) ? said : `${said}: ${why}`;
  return place === undefined ? words : `${words} (at ${place})`;
}

function placeOf(stack: string, root: string): string | undefined {
  for (const line of stack.split("\n")) {
    const [, file, row] = /[\s(](?:file:\/\/)?(\/[^():]+):(\d+)(?::\d+)?\)?$/.exec(line) ?? [];
    if (file === undefined || file.includes("/node_modules/")) continue;
    return `${file.startsWith(`${root}/`) ? file.slice(root.length + 1) : file}:${row}`;
  }
  return undefined;
}

function wordsOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.map(wordsOf).join(", ");
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.replaceAll(/\s+/g, " ").trim();
}

function cut(text: string): string {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
