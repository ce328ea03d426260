import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import { type PathRule, queryText } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { textOf } from "../inside/byte-text.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";

/** Of a path of 4 096 bytes, each of which can be three characters. */
const MOST_CHARACTERS = 12_288;
/** Parts with slashes between them, in which each percent sign stands before two digits. */
const PATH = "^(?:(?:[^/%]|%[0-9A-Fa-f]{2})+(?:/(?:[^/%]|%[0-9A-Fa-f]{2})+)*)?$";
const PATH_PATTERN = new RegExp(PATH);

const rule: PathRule = {
  accepts: (value) => value.length <= MOST_CHARACTERS && PATH_PATTERN.test(value),
  says: `a path has no empty part, no more than ${MOST_CHARACTERS} characters, and no "%" without two hexadecimal digits`,
};

/** Describes a query parameter that {@link queryPath} reads. */
export function pathSchema(description: string): OpenApiSchema {
  return { type: "string", pattern: PATH, description };
}

/**
 * A query parameter with the path of a saved file as the API shows it.
 *
 * @returns the path's bytes, one per character; `""` without the parameter
 * @throws HttpError 400 if it is no path
 */
export function queryPath(request: RoutedRequest, name: string): string {
  return decodePath(queryText(request, name, rule) ?? "");
}

/** The path of a saved file at the end of a URL, with its bytes as {@link queryPath} returns them. */
export function pathAtEnd({ params: { path: raw = "" } }: RoutedRequest): string {
  if (rule.accepts(raw)) return decodePath(raw);
  throw new HttpError(400, `path: ${rule.says}, got ${quote(raw)}`);
}

/** The bytes of a path, in which `%` and two digits stand for one byte. */
function decodePath(text: string): string {
  return Buffer.from(text)
    .toString("latin1")
    .replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

/** A path of bytes, one per character, as text for a URL. */
export function encodePath(path: string): string {
  return path.replace(/[^\w.~/-]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
}

/** A path for people; not every path is UTF-8. */
export function pathText(path: string): string {
  return textOf(path);
}

/** How the API names a saved file. */
export function namedPath(path: string): { path: string; encodedPath?: string } {
  const text = pathText(path);
  const isPlain = Buffer.from(text).toString("latin1") === path && !text.includes("%");
  return { path: text, ...(!isPlain && { encodedPath: encodePath(path) }) };
}

/**
 * The header of a download, with the file's name, also for clients that know only the simple form.
 *
 * Follows https://www.rfc-editor.org/rfc/rfc6266#appendix-D
 */
export function attachment(path: string): { readonly "content-disposition": string } {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const simple = name.replace(/[^\w.~ -]/g, "_");
  const more = simple === name ? "" : `; filename*=UTF-8''${encodePath(name)}`;
  return { "content-disposition": `attachment; filename="${simple}"${more}` };
}
