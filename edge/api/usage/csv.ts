/**
 * A table as CSV, RFC 4180. A spreadsheet runs a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return
 * as a formula, so such a text gets a `'` before it (https://owasp.org/www-community/attacks/CSV_Injection).
 */
export function toCsv(rows: readonly (readonly (string | number)[])[]): string {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
