import { pattern } from "./patterns.ts";

/** What a value must be to match a pattern, as the end of a sentence that starts with "must be". */
export const patternHints: Readonly<Record<string, string>> = {
  [pattern.tenantId]: "a tenant id: letters, digits, '.', '_' and '-', with a letter or digit at both ends",
  [pattern.tenantIdPrefix]: "the start of a tenant id: letters, digits, '.', '_' and '-', with a letter or digit first",
  [pattern.label]: "a name of lower-case letters, digits and '-', with a letter or digit at both ends",
  [pattern.subdomain]: "a name of lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
  [pattern.dataKey]: "a key of letters, digits, '.', '_' and '-'",
  [pattern.domain]: "a domain name such as example.com or *.example.com, without scheme, port and path",
  [pattern.headerName]: "the name of an HTTP header",
  [pattern.directory]: "an absolute path below / without '.', '..' and empty segments, ':' and control characters",
  [pattern.absolutePath]: "an absolute path without control characters",
  [pattern.urlPath]: "a path that starts with / and has no query, fragment, space or control character",
  [pattern.url]: "an address that starts with http:// or https:// and has no space or control character",
  [pattern.oneLine]: "non-empty text on one line, without control characters",
  [pattern.word]: "non-empty text without spaces and control characters",
  [pattern.noNull]: "text without the NUL character",
  [pattern.archiveVersion]: "the SHA-256 of a snapshot, or its first 16 digits, in lower case",
  [pattern.headerValue]: "text on one line, without the NUL character",
};
