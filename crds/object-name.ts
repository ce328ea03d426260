import { createHash } from "node:crypto";
import { pattern } from "./patterns.ts";

/** The longest name that we derive or accept: names also serve as label values and host names. */
export const MAX_NAME_LENGTH = 63;

// Of names that are only a first guess: whoever finds an object by one compares what the object says of itself.
const HASH_LENGTH = 8;
// Of names that are all there is to tell two objects apart.
const UNIQUE_HASH_LENGTH = 24;
const LABEL = new RegExp(pattern.label);
const SUBDOMAIN = new RegExp(pattern.subdomain);
const SUFFIX = /^[a-z0-9]{1,16}$/;
const LOOKS_HASHED = new RegExp(`--([0-9a-f]{${HASH_LENGTH}}|[0-9a-f]{${UNIQUE_HASH_LENGTH}})$`);

/** What a derived name is made of. */
export interface ObjectNameParts {
  /** What comes first and says what the object is, such as `claim`. */
  prefix: string;
  /** What the object belongs to, such as a tenant id and a workload; any strings. */
  parts: readonly string[];
  /** Lower-case letters and digits that come last and are never shortened, at most 16. */
  suffix?: string;
  /** The DNS-1123 form: `label` for what becomes a host name, `subdomain` to keep dots. @default "label" */
  form?: "label" | "subdomain";
  /** Use the hashed form even where the readable one is legal. @default false */
  hashed?: boolean;
  /**
   * Whether the name alone tells the object from others of its kind, which takes a longer hash, one part alone, and a prefix that does
   * not, with its `-`, begin another prefix of that kind. @default false
   */
  unique?: boolean;
}

/**
 * Derives a legal DNS-1123 name of at most 63 characters.
 *
 * Readable, `<prefix>-<parts joined by ->-<suffix>`, where that is legal; else
 * `<prefix>-<slug>--<8 hex digits of SHA-256 over the parts, or 24>-<suffix>`. A readable name that would look hashed is hashed
 * too, so no readable name ever equals a hashed one.
 *
 * @throws {TypeError} when the suffix is not legal.
 */
export function objectName(options: ObjectNameParts): string {
  const { prefix, parts, suffix, form = "label", hashed = false, unique = false } = options;
  if (suffix !== undefined && !SUFFIX.test(suffix)) {
    throw new TypeError(`Cannot derive a name: suffix ${JSON.stringify(suffix)} is not 1 to 16 of a-z, 0-9`);
  }
  const ending = suffix === undefined ? "" : `-${suffix}`;
  const readable = [prefix, ...parts].join("-");
  return !hashed && isReadable({ readable, ending, parts, form })
    ? readable + ending
    : hashedName({ prefix, parts, ending, digits: unique ? UNIQUE_HASH_LENGTH : HASH_LENGTH });
}

function isReadable(name: { readable: string; ending: string; parts: readonly string[]; form: "label" | "subdomain" }) {
  const legal = name.form === "label" ? LABEL : SUBDOMAIN;
  return (
    name.readable.length + name.ending.length <= MAX_NAME_LENGTH &&
    legal.test(name.readable) &&
    name.parts.every((part) => legal.test(part)) &&
    !LOOKS_HASHED.test(name.readable)
  );
}

function hashedName(name: { prefix: string; parts: readonly string[]; ending: string; digits: number }): string {
  // JSON keeps the border between the parts, so ("a-b", "c") and ("a", "b-c") differ.
  const hash = createHash("sha256").update(JSON.stringify(name.parts)).digest("hex").slice(0, name.digits);
  const room = MAX_NAME_LENGTH - `${name.prefix}---${hash}${name.ending}`.length;
  const slug = name.parts
    .join("-")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, room)
    .replace(/-$/, "");
  return slug === "" ? `${name.prefix}--${hash}${name.ending}` : `${name.prefix}-${slug}--${hash}${name.ending}`;
}
