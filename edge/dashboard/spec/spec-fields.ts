/** The part of a JSON Schema that a form needs. */
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
  /** Path in the spec, such as `resources.memoryMb`. */
  readonly path: string;
  /** `lines`: one entry a line; `pairs`: `KEY=value` a line; `json`: for values that no single control can hold. */
  readonly kind: "text" | "number" | "flag" | "choice" | "lines" | "pairs" | "json";
  readonly help: string;
  readonly isRequired: boolean;
  readonly schema: FieldSchema;
}

type Spec = Readonly<Record<string, unknown>>;

/** By schema: the fields that most people set, in addition to the required ones, with a label if the path is none. */
export const usualFields: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  WorkloadSpec: {
    "image.ref": "Image",
    "network.ports": "Ports",
    "resources.memoryMb": "Memory (MB)",
    "filesystem.overlayDirs": "Keep files in",
  },
  PoolSpec: { size: "", maxSize: "", minSize: "" },
  TriggerSpec: { "tenant.static": "", "tenant.from": "", "config.path": "", "config.schedule": "" },
};

/** By schema: a title and what it is about, of the folded groups; of the fields outside of groups by `""`. */
export const groupWords: Readonly<Record<string, Readonly<Record<string, readonly [title: string, about: string]>>>> = {
  WorkloadSpec: {
    image: ["Build and pull", "a Dockerfile to build in the cluster; when to pull, and with which password"],
    resources: ["Size", "CPU, disk, what is requested, GPUs"],
    network: ["Network", "what it may reach, and who may reach it"],
    idle: ["Sleep", "when an idle instance is released"],
    filesystem: ["Saving", "what runs before a save; checkpoints while it runs"],
    health: ["Health", "how to see that it works"],
    entrypoint: ["Program", "command, variables, when it starts and how it stops"],
    scheduling: ["Nodes", "on which nodes it runs"],
    "": ["More", "version, volumes, a Service, runtime class, labels of pods, a service account"],
  },
};

/** By schema: alternatives of which an object has one, with the fields of the spec that each has. */
export const fieldChoices: Readonly<Record<string, readonly FieldChoice[]>> = {
  PoolSpec: [
    { label: "A fixed number of pods", names: ["size"] },
    {
      label: "As many pods as claims need",
      names: ["maxSize", "minSize", "target", "schedule", "scaleDownAfterSeconds"],
    },
  ],
};

export interface FieldChoice {
  readonly label: string;
  readonly names: readonly string[];
}

/** The names of the fields that the other alternatives have. */
export function otherNames(choices: readonly FieldChoice[], chosen: number): ReadonlySet<string> {
  return new Set(choices.flatMap(({ names }, index) => (index === chosen ? [] : names)));
}

/** The alternative of a spec; the first one if it has none of the fields. */
export function choiceOf(choices: readonly FieldChoice[], spec: Spec): number {
  return Math.max(
    0,
    choices.findIndex(({ names }) => names.some((name) => spec[name] !== undefined)),
  );
}

/** The fields of a schema, including those of nested objects. */
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
  const one = typeof additionalProperties === "object" ? additionalProperties.type : undefined;
  return type === "object" && (one === "string" || one === "integer") ? "pairs" : "json";
}

export function valueAt(spec: Spec, path: string): unknown {
  let value: unknown = spec;
  for (const name of path.split(".")) value = isObject(value) ? value[name] : undefined;
  return value;
}

/** The spec with another value; without a value, objects that become empty are removed too. */
export function withValue(spec: Spec, path: string, value: unknown): Spec {
  const [name = "", ...rest] = path.split(".");
  const { [name]: before, ...others } = spec;
  const next = rest.length === 0 ? value : withValue(isObject(before) ? before : {}, rest.join("."), value);
  if (next === undefined || (rest.length > 0 && Object.keys(next as object).length === 0)) return others;
  return { ...spec, [name]: next };
}

/**
 * The control in which a value can be edited: JSON if the field's own control would change the value, such as an entry
 * with line breaks, or an empty list.
 */
export function editableField(field: SpecField, value: unknown): SpecField {
  if (value === undefined || field.kind === "json") return field;
  const text = fieldText(field, value);
  // Controls normalise line breaks, and single-line controls remove them.
  const isKept = !(isOneLine(field) ? /[\r\n]/ : /\r/).test(text);
  if (isKept && JSON.stringify(fieldValue(field, text)) === JSON.stringify(value)) return field;
  return { ...field, kind: "json" };
}

function isOneLine({ kind }: SpecField): boolean {
  return kind !== "lines" && kind !== "pairs" && kind !== "json";
}

/** The text of a field's control. */
export function fieldText(field: SpecField, value: unknown): string {
  const { kind, schema } = field;
  if (value === undefined) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "pairs" && isObject(value)) {
    return Object.entries(value)
      .map(([name, text]) => `${name}=${text}`)
      .join("\n");
  }
  // Text that is not JSON was typed, and is shown unchanged.
  const isPlain = kind !== "json" || (schema.type !== "string" && fieldValue(field, String(value)) === value);
  return typeof value === "string" && isPlain ? value : JSON.stringify(value, null, 2);
}

/** The value of a control's text; text that cannot be converted stays text, and the API reports the problem. */
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
    case "pairs": {
      const { additionalProperties: one } = schema;
      const convert = typeof one === "object" && one.type === "integer" ? numberOr : String;
      return Object.fromEntries(
        text
          .split("\n")
          .filter((line) => line.trim() !== "")
          .map((line) => {
            const at = line.indexOf("=");
            return at === -1 ? [line, ""] : [line.slice(0, at), convert(line.slice(at + 1))];
          }),
      );
    }
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

/** Splits the API's message by field; sentences about no field have the key `""`. */
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

/** The differences between two specs, one line each. */
export function specChanges(before: unknown, after: unknown, at = "spec"): string[] {
  if (isObject(before) && isObject(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) =>
      specChanges(before[name], after[name], `${at}.${name}`),
    );
  }
  const [was, is] = [JSON.stringify(before), JSON.stringify(after)];
  if (was === is) return [];
  if (was === undefined) return [`${at}: ${is}`];
  return [is === undefined ? `${at}: ${was}, removed` : `${at}: ${was} → ${is}`];
}

/**
 * Applies one person's changes on top of another's: if both changed a field, the other's value stays and `clashes`
 * names the field.
 */
export function rebased(
  { before, mine, theirs }: { before: unknown; mine: unknown; theirs: unknown },
  at = "spec",
): { value: unknown; clashes: string[] } {
  if (isSame(mine, before) || isSame(mine, theirs)) return { value: theirs, clashes: [] };
  if (isSame(theirs, before)) return { value: mine, clashes: [] };
  if (!isObject(mine) || !isObject(theirs)) {
    return { value: theirs, clashes: [`${at}: ${mine === undefined ? "removed" : JSON.stringify(mine)}`] };
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
