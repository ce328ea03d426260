import type { AuditRecord } from "./audit-record.ts";

/** Maximum characters of a line for a value that a client chose. So a line with all its values fits into a pipe at once. */
const MAX_VALUE = 512;
/** Keys and links of tenancy, and signed tokens (JWT), wherever a client has put one by mistake. */
const SECRETS = /(tk_[a-z0-9]{16}_)[\w-]+|(eyJ)[\w-]+(?:\.[\w-]*)+/g;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const UNSEEN = "***";
/** A shorter TENANCY_API_KEY could be any word. */
const MIN_KEY = 8;

/** Makes texts that a client chose fit for the audit log. */
export type ShowText = (text: string) => string;

/**
 * Returns a function that hides keys and tokens in a text, and cuts it after 512 characters of a line.
 *
 * @param apiKey TENANCY_API_KEY
 */
export function createShowText(apiKey?: string): ShowText {
  return (text) => {
    const hidden = text.replace(SECRETS, (_, key = "", token = "") => `${key}${token}${UNSEEN}`);
    const shown = apiKey === undefined || apiKey.length < MIN_KEY ? hidden : hidden.replaceAll(apiKey, UNSEEN);
    return cut(shown);
  };
}

/** The longest spelling of a character in a line: `\u001b`. */
const ESCAPED = 6;

function cut(text: string): string {
  if (text.length * ESCAPED <= MAX_VALUE) return text;
  let length = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    length += unit < 0x20 || unit > 0x7e || unit === QUOTE || unit === BACKSLASH ? ESCAPED : 1;
    if (length > MAX_VALUE) return `${text.slice(0, at)}…`;
  }
  return text;
}

/**
 * A record, or a note about records, as a line of JSON. It has only printable ASCII characters: no reader takes it for
 * two lines, and no terminal for a command. `audit` comes first, which no line of the log has.
 */
export function lineOf(content: AuditRecord | AuditNote): string {
  return asciiJson({ audit: true, ...content });
}

/** JSON as it is in a line. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A line that stands for records that were not written. */
export interface AuditNote {
  readonly time: string;
  /** Number of records. */
  readonly omitted: number;
  /** `unauthenticated`: refused requests without a valid key. `lost`: the file or the output did not take them. */
  readonly why: "unauthenticated" | "lost";
}
