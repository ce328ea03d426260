/** What JSON calls the type of a value: `null`, `array`, `object`, `string`, `number` or `boolean`. */
export function typeName(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
