import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** A file, folder or link in an instance. */
export type InstanceFile = ApiTypes["InstanceFile"];

/**
 * A path in an instance without the slash at its start, as the API and the page's address have it: `%` and two digits
 * are a byte, other characters stand for themselves.
 */
export type FilePath = string;

export const pathOf = ({ path, encodedPath }: Pick<InstanceFile, "path" | "encodedPath">): FilePath =>
  encodedPath ?? path;

/** What a person has typed, as a path: from the root if it begins with a slash, otherwise from the folder. */
export function typedPath(typed: string, folder: FilePath): FilePath {
  const path = typed.replaceAll("%", "%25");
  return path.startsWith("/") ? path.slice(1) : childOf(folder, path);
}

export function childOf(folder: FilePath, name: FilePath): FilePath {
  return folder === "" ? name : `${folder}/${name}`;
}

export function folderOf(path: FilePath): FilePath {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** Why a path cannot be part of a URL; undefined if it can. Browsers resolve `..` themselves. */
export function pathProblem(path: FilePath): string | undefined {
  return path.split("/").some((part) => part === "" || part === "." || part === "..")
    ? 'A name cannot be empty, "." or "..".'
    : undefined;
}

/** A path as a part of a URL's path. */
export function urlOf(path: FilePath): string {
  return path
    .split("/")
    .map((part) => encodeURIComponent(part).replaceAll("%25", "%"))
    .join("/");
}

/** The last part of a path as a person reads it. */
export function nameOf(path: FilePath): string {
  return visible(textOf(path.slice(path.lastIndexOf("/") + 1)));
}

/** The text of a part of a path; bytes that are not UTF-8 are written as `\xE4`. */
function textOf(part: string): string {
  return part.replace(/(?:%[0-9A-Fa-f]{2})+/g, (bytes) => {
    try {
      return decodeURIComponent(bytes);
    } catch {
      return bytes.replaceAll("%", "\\x");
    }
  });
}

/** Characters without a shape of their own: controls, line ends, and those that change the direction of text. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
const short: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A text in which every character can be seen. */
export function visible(text: string): string {
  return text.replace(unseen, (char) => short[char] ?? `\\u{${char.codePointAt(0)?.toString(16)}}`);
}
