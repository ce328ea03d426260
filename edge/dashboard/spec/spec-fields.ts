/** The part of a JSON Schema that a form is drawn from. */
export interface FieldSchema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly required?: readonly string[];
  readonly items?: FieldSchema;
  readonly additionalProperties?: FieldSchema | boolean;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
}

/** A field of a form. */
export interface SpecField {
  /** In the spec, such as `resources.memoryMb`. */
  readonly path: string;
  /** A line an entry, `KEY=value` a line, or JSON, for what no single field can hold. */
  readonly kind: "text" | "number" | "flag" | "choice" | "lines" | "pairs" | "json";
  readonly help: string;
  readonly isRequired: boolean;
  readonly schema: FieldSchema;
}

type Spec = Readonly<Record<string, unknown>>;

/** By schema: what nearly all set, beside what its words require. */
export const usualFields: Readonly<Record<string, readonly string[]>> = {
  WorkloadSpec: ["image.ref", "network.access", "network.ports", "filesystem.overlayDirs"],
  TriggerSpec: ["tenant.static", "tenant.from", "config.path", "config.schedule"],
};

/** The fields of an object's schema, those of the objects in it among them. */
export function specFields(schema: FieldSchema, at = "", isRequired = true): SpecField[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, part]) => {
    const path = at === "" ? name : `${at}.${name}`;
    const isNeeded = isRequired && (schema.required ?? []).includes(name);
    if (part.type === "object" && part.properties !== undefined) return specFields(part, path, isNeeded);
    return [{ path, kind: kindOf(part), help: part.description ?? "", isRequired: isNeeded, schema: part }];
  });
}

function kindOf({ type, items, additionalProperties, enum: choices }: FieldSchema): SpecField["kind"] {
  if (choices !== undefined) return "choice";
  if (type === "string") return "text";
  if (type === "integer") return "number";
  if (type === "boolean") return "flag";
  if (type === "array" && (items?.type === "string" || items?.type === "integer")) return "lines";
  if (type === "object" && typeof additionalProperties === "object" && additionalProperties.type === "string") {
    return "pairs";
  }
  return "json";
}

export function valueAt(spec: Spec, path: string): unknown {
  let value: unknown = spec;
  for (const name of path.split(".")) value = isObject(value) ? value[name] : undefined;
  return value;
}

/** The spec with another value; without one, the objects that held nothing else go too. */
export function withValue(spec: Spec, path: string, value: unknown): Spec {
  const [name = "", ...rest] = path.split(".");
  const { [name]: before, ...others } = spec;
  const next = rest.length === 0 ? value : withValue(isObject(before) ? before : {}, rest.join("."), value);
  if (next === undefined || (rest.length > 0 && Object.keys(next as object).length === 0)) return others;
  return { ...spec, [name]: next };
}

/**
 * The field as a value can be edited in it: JSON where its own control would change the value, such as an entry of more
 * than one line, or an empty list.
 */
export function editableField(field: SpecField, value: unknown): SpecField {
  if (value === undefined || field.kind === "json") return field;
  const text = fieldText(field, value);
  // Controls normalise line ends, and those of one line drop them.
  const isKept = !(isOneLine(field) ? /[\r\n]/ : /\r/).test(text);
  if (isKept && JSON.stringify(fieldValue(field, text)) === JSON.stringify(value)) return field;
  return { ...field, kind: "json" };
}

function isOneLine({ kind }: SpecField): boolean {
  return kind !== "lines" && kind !== "pairs" && kind !== "json";
}

/** What stands in a field's control. */
export function fieldText(field: SpecField, value: unknown): string {
  const { kind, schema } = field;
  if (value === undefined) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "pairs" && isObject(value)) {
    return Object.entries(value)
      .map(([name, text]) => `${name}=${text}`)
      .join("\n");
  }
  // What is no JSON was typed there, and is shown as it was.
  const isPlain = kind !== "json" || (schema.type !== "string" && fieldValue(field, String(value)) === value);
  return typeof value === "string" && isPlain ? value : JSON.stringify(value, null, 2);
}

/** The value that a control's text stands for; what cannot be one stays text, which the API says more of. */
export function fieldValue({ kind, schema }: SpecField, text: string): unknown {
  if (text.trim() === "") return undefined;
  switch (kind) {
    case "number":
      return numberOr(text);
    case "flag":
      return text === "true";
    case "lines": {
      const lines = text.split("\n").filter((line) => line !== "");
      return schema.items?.type === "integer" ? lines.map(numberOr) : lines;
    }
    case "pairs":
      return Object.fromEntries(
        text
          .split("\n")
          .filter((line) => line.trim() !== "")
          .map((line) => {
            const at = line.indexOf("=");
            return at === -1 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
          }),
      );
    case "json":
      try {
        return JSON.parse(text) as unknown;
      } catch {
        return text;
      }
    default:
      return text;
  }
}

/** The API's sentences by the field that each is about; those about none come as `""`. */
export function problemsByField(message: string, fields: readonly SpecField[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const sentence of message.split(/; (?=body\.|and \d+ more$)/)) {
    const place = /^body\.(?:spec\.)?([^:\s]+):/.exec(sentence)?.[1] ?? "";
    const field = fields
      .filter(({ path }) => place === path || place.startsWith(`${path}.`) || place.startsWith(`${path}[`))
      .sort((a, b) => b.path.length - a.path.length)[0];
    const key = field?.path ?? (place === "name" ? "name" : "");
    found.set(key, found.has(key) ? `${found.get(key)}; ${sentence}` : sentence);
  }
  return found;
}

/** What differs between two specs, a line a place. */
export function specChanges(before: unknown, after: unknown, at = "spec"): string[] {
  if (isObject(before) && isObject(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
      specChanges(before[name], after[name], `${at}.${name}`),
    );
  }
  const [was, is] = [JSON.stringify(before), JSON.stringify(after)];
  if (was === is) return [];
  if (was === undefined) return [`${at}: ${is}`];
  return [is === undefined ? `${at}: ${was}, taken out` : `${at}: ${was} → ${is}`];
}

/**
 * Makes the changes of one person again over those of another: where both changed a place, the other's stays, and
 * `clashes` names it.
 */
export function rebased(
  { before, mine, theirs }: { before: unknown; mine: unknown; theirs: unknown },
  at = "spec",
): { value: unknown; clashes: string[] } {
  if (isSame(mine, before) || isSame(mine, theirs)) return { value: theirs, clashes: [] };
  if (isSame(theirs, before)) return { value: mine, clashes: [] };
  if (!isObject(mine) || !isObject(theirs)) {
    return { value: theirs, clashes: [`${at}: ${mine === undefined ? "taken out" : JSON.stringify(mine)}`] };
  }
  const old = isObject(before) ? before : {};
  const parts = [...new Set([...Object.keys(theirs), ...Object.keys(mine)])].map((name) => {
    const values = { before: old[name], mine: mine[name], theirs: theirs[name] };
    return { name, ...rebased(values, `${at}.${name}`) };
  });
  const kept = parts.filter(({ value }) => value !== undefined).map(({ name, value }) => [name, value]);
  return { value: Object.fromEntries(kept), clashes: parts.flatMap(({ clashes }) => clashes) };
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function numberOr(text: string): number | string {
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
