/**
 * Regular expressions with the same meaning in ECMA-262 and in RE2, which the API server uses: no look-around, no
 * back-references, no flags.
 */
export const pattern = {
  /** A tenant id: a non-empty label value. */
  tenantId: "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
  /** The name of a label, without a prefix. */
  labelName: "^([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
  /** The value of a label, which may be empty. */
  labelValue: "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
  /** The name of a zone: a non-empty value of a node's label. */
  zone: "^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
  /** The key of a label or a taint: a name, or a domain, `/` and a name. */
  labelKey:
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
  /** The name of an extended resource: a domain, `/` and a name. */
  resourceName:
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
  /** A time (RFC 3339), in upper case. */
  time: "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
  /** The start of a tenant id. */
  tenantIdPrefix: "^[A-Za-z0-9][-A-Za-z0-9_.]*$",
  /** A DNS-1123 label. */
  label: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
  /** A DNS-1123 subdomain: labels joined by dots. */
  subdomain: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
  /** A key of a Secret or ConfigMap. */
  dataKey: "^[-._a-zA-Z0-9]+$",
  /** The name of a file that a key becomes: neither `.` nor two dots first. */
  fileName: "^\\.?[-_A-Za-z0-9][-._A-Za-z0-9]*$",
  /** A domain name, or `*.` and a domain name. */
  domain: "^(\\*\\.)?[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?(\\.[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?)*$",
  /** The name of an HTTP header (RFC 9110, section 5.6.2). */
  headerName: "^[-!#$%&'*+.^_`|~0-9A-Za-z]+$",
  /** An absolute path below `/`, without empty, `.` and `..` segments, colons and control characters. */
  directory:
    "^(/([^/.:\\x00-\\x1f\\x7f][^/:\\x00-\\x1f\\x7f]*|\\.[^/.:\\x00-\\x1f\\x7f][^/:\\x00-\\x1f\\x7f]*|\\.\\.[^/:\\x00-\\x1f\\x7f]+))+/?$",
  /** An absolute path. */
  absolutePath: "^/[^\\x00-\\x1f\\x7f]*$",
  /** A path of a URL, without query and fragment. */
  urlPath: "^/[-A-Za-z0-9._~!$&'()*+,;=:@%/]*$",
  /** An absolute HTTP or HTTPS address. */
  url: "^https?://[^\\s/\\x00-\\x1f\\x7f]+[^\\s\\x00-\\x1f\\x7f]*$",
  /** The HTTPS address of a Git repository, without a user. */
  gitUrl: "^https:/{2}[-A-Za-z0-9.]+(:[0-9]+)?(/[-A-Za-z0-9._~!$&'()*+,;=:%]+)+/?$",
  /** A branch, tag or commit that no program can mistake for an option or a pair. */
  gitRef: "^[A-Za-z0-9_]([-A-Za-z0-9_./]*[A-Za-z0-9_])?$",
  /** Any text on one line. */
  oneLine: "^[^\\x00-\\x1f\\x7f]+$",
  /** A cron pattern: five fields. */
  cron: "^\\s*\\S+(\\s+\\S+){4}\\s*$",
  /** Any text without spaces and control characters. */
  word: "^[^\\s\\x00-\\x1f\\x7f]+$",
  /** The name of an environment variable that every shell can use. */
  variable: "^[A-Za-z_][A-Za-z0-9_]*$",
  /** Base64 with its padding; may be empty. */
  base64: "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
  /** Any text that a program's argument or environment can contain. */
  noNull: "^[^\\x00]*$",
  /** The SHA-256 of an archive, or its first 16 digits. */
  archiveVersion: "^[0-9a-f]{16}([0-9a-f]{48})?$",
  /** The SHA-256 of an archive, its first 16 digits, or a name that a person gave it. */
  archive: "^([0-9a-f]{64}|([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])$",
  /** The value of an HTTP header. */
  headerValue: "^[^\\x00\\r\\n]*$",
} as const;
