import { type Static, Type } from "@sinclair/typebox";
import type { Claim } from "../claim.ts";
import { quote } from "../quote.ts";
import { pattern } from "../schema/patterns.ts";
import { dataReference, plainSchema, rules, secretReference, stringMap } from "../schema/schema.ts";
import { repeated, schemaProblems } from "../schema/schema-problems.ts";
import { directoryProblem } from "../schema/validate-workload.ts";
import { differingKeys } from "./differing-keys.ts";

/** Bytes of the names and values of all variables that a claim brings. */
export const VARIABLES_LIMIT = 64 * 1024;

/** Bytes of all files that a claim brings. */
export const INPUT_FILES_LIMIT = 1024 * 1024;

/** Permissions of a file that names none. */
export const DEFAULT_MODE = "0600";

const inputFileSchema = Type.Object(
  {
    path: Type.String({
      description: "Absolute path of the file. Missing folders above it are made.",
      pattern: pattern.directory,
      maxLength: 1024,
      ...rules({ rule: "!self.endsWith('/')", message: "must name a file, so it must not end with a slash" }),
    }),
    mode: Type.Optional(
      Type.String({
        description: "Permissions in octal digits.",
        pattern: "^0?[0-7]{3}$",
        maxLength: 4,
        default: DEFAULT_MODE,
      }),
    ),
    content: Type.Optional(
      Type.String({
        description: "The content as text. Not for secrets: all who may read claims see it.",
        maxLength: 65536,
      }),
    ),
    base64: Type.Optional(
      Type.String({
        description: "The content in base64, as an alternative to content.",
        pattern: pattern.base64,
        maxLength: 65536,
      }),
    ),
    configMapRef: Type.Optional(dataReference("ConfigMap", "The key of a ConfigMap with the content.")),
    secretRef: Type.Optional(secretReference("The key of a Secret with the content.")),
  },
  {
    description: "A file that the program finds.",
    ...rules({
      rule: "[has(self.content), has(self.base64), has(self.configMapRef), has(self.secretRef)].filter(is, is).size() == 1",
      message: "must have one of content, base64, configMapRef and secretRef",
    }),
  },
);

/** Values of environment variables, by name. */
function variables(description: string) {
  return stringMap(
    { pattern: pattern.noNull, maxLength: 32768 },
    {
      description,
      maxProperties: 64,
      ...rules({
        rule: `self.all(key, key.matches(r'${pattern.variable}'))`,
        message: "each key must be letters, digits and underscores, and must not begin with a digit",
      }),
    },
  );
}

export type InputFile = Static<typeof inputFileSchema>;

/** What a claim gives to the program that starts with it. */
export const claimInputsSchema = Type.Object(
  {
    env: Type.Optional(
      variables(
        "Environment variables of the program, at most 64 KiB together. Not for secrets: all who may read claims see them.",
      ),
    ),
    secretRef: Type.Optional(
      Type.Object(
        { name: Type.String({ description: "Name of the Secret.", pattern: pattern.subdomain, maxLength: 253 }) },
        {
          description:
            "A Secret with more environment variables: each of its keys that can be the name of a variable is one.",
        },
      ),
    ),
    files: Type.Optional(
      Type.Array(inputFileSchema, {
        description: "Files that the program finds: at most 1 MiB together.",
        maxItems: 64,
      }),
    ),
  },
  {
    description:
      "What the program gets, for a workload with entrypoint.start OnClaim or entrypoint.onClaim: at most 64 KiB of variables, and 1 MiB of files.",
  },
);

/** Variables of a claim call that become a Secret. */
export const secretVariablesSchema = variables(
  "Secret environment variables of the program, at most 64 KiB together with env. They are stored in a Secret that is deleted with the claim.",
);

export type ClaimInputs = Static<typeof claimInputsSchema>;

/** A claim as a cache keeps it that needs no inputs: they can have 1 MiB. */
export function withoutInputs(claim: Claim): Claim {
  return claim.spec.inputs === undefined ? claim : { ...claim, spec: { ...claim.spec, inputs: {} } };
}

const schema = plainSchema(claimInputsSchema);
const secretsSchema = plainSchema(secretVariablesSchema);
/** Of a key of a Secret. */
const LONGEST_KEY = 253;
const VARIABLE = new RegExp(pattern.variable);
/** Of the names of variables that only the service sets. */
const RESERVED = "TENANCY_";
const SOURCES = ["content", "base64", "configMapRef", "secretRef"] as const;

/**
 * What is wrong with a claim's inputs: sentences that start with the field's path, and never contain a value. The same
 * rules as the CRD's, on any API server, and those that no schema can express.
 */
export function inputProblems(inputs: unknown, path: string): string[] {
  const problems = schemaProblems({ value: inputs, schema, path });
  if (problems.length > 0) return problems;
  const { env = {}, files = [] } = inputs as ClaimInputs;
  const tooLarge = sizeProblem(Object.entries(env), `${path}.env`);
  return [
    ...Object.keys(env).flatMap((name) => variableProblem(name, `${path}.env`) ?? []),
    ...(tooLarge === undefined ? [] : [tooLarge]),
    ...files.flatMap((file, index) => fileProblems(file, `${path}.files[${index}]`)),
    ...repeated(files.map((file) => file.path)).map(
      (twice) => `${path}.files: ${quote(twice)} is named twice: remove one`,
    ),
    ...files.flatMap((file) =>
      files.some((other) => other.path.startsWith(`${file.path}/`))
        ? [`${path}.files: ${quote(file.path)} is a file, and has another below it: change one of the paths`]
        : [],
    ),
  ];
}

/** What is wrong with the secret variables of a claim call, as {@link inputProblems}. */
export function secretProblems(secrets: unknown, { env = {} }: Pick<ClaimInputs, "env">, path: string): string[] {
  const problems = schemaProblems({ value: secrets, schema: secretsSchema, path: `${path}.secrets` });
  if (problems.length > 0) return problems;
  const all = Object.entries(secrets as Record<string, string>);
  const tooLarge = sizeProblem([...Object.entries(env), ...all], `${path}.secrets`);
  const problemOf = (name: string) => {
    if (name.length > LONGEST_KEY)
      return `${path}.secrets: ${quote(name)} has ${name.length} characters, of at most ${LONGEST_KEY}: shorten it`;
    if (Object.hasOwn(env, name)) return `${path}.secrets: ${quote(name)} is in env too: remove one`;
    return variableProblem(name, `${path}.secrets`);
  };
  return [...all.flatMap(([name]) => problemOf(name) ?? []), ...(tooLarge === undefined ? [] : [tooLarge])];
}

/** Why a claim on the workload can bring nothing: its program has started before, and is not told. */
export function startsTooEarly(workloadRef: string): string {
  return `the program of workload "${workloadRef}" starts before its claim and cannot get them: set the workload's entrypoint.start to OnClaim, or its entrypoint.onClaim`;
}

/** Why a program cannot get so large variables. */
export function sizeProblem(
  variables: Iterable<readonly [name: string, value: string | Buffer]>,
  path: string,
): string | undefined {
  let bytes = 0;
  // As an environment has them: each with `=` and a zero byte.
  for (const [name, value] of variables) bytes += Buffer.byteLength(name) + Buffer.byteLength(value) + 2;
  if (bytes <= VARIABLES_LIMIT) return undefined;
  return `${path}: the variables have ${bytes} bytes, of at most ${VARIABLES_LIMIT}: give large ones as files`;
}

/** Whether there is anything in them. */
export function hasInputs(inputs: ClaimInputs | undefined): boolean {
  return byPlace(inputs).size > 0;
}

/** What differs: `env.LANG` or `files./data/settings.json`, and never a value. */
export function differingInputs(a: ClaimInputs | undefined, b: ClaimInputs | undefined): string[] {
  return differingKeys(byPlace(a), byPlace(b));
}

function byPlace({ env = {}, secretRef, files = [] }: ClaimInputs = {}): Map<string, string> {
  return new Map([
    ...Object.entries(env).map(([name, value]) => [`env.${name}`, asStored(value)] as const),
    ...(secretRef === undefined ? [] : [["secretRef", secretRef.name] as const]),
    ...files.map((file) => [asStored(`files.${file.path}`), asGiven(file)] as const),
  ]);
}

/** The API server replaces what is no Unicode. */
function asStored(text: string): string {
  return Buffer.from(text).toString();
}

/** Equal for files that are written in two ways. */
function asGiven(file: InputFile): string {
  const { mode = DEFAULT_MODE, configMapRef, secretRef } = file;
  const source = configMapRef ?? secretRef ?? ownContent(file).toString("base64");
  return JSON.stringify([mode.slice(-3), configMapRef === undefined, source]);
}

/** The content of a file that refers to no object. */
export function ownContent({ content = "", base64 }: InputFile): Buffer {
  return base64 === undefined ? Buffer.from(content) : Buffer.from(base64, "base64");
}

/** Why a program cannot get a variable of this name. */
export function variableProblem(name: string, path: string): string | undefined {
  if (!isVariableName(name))
    return `${path}: ${quote(name)} is not the name of a variable: use letters, digits and underscores, and begin with no digit`;
  if (name.startsWith(RESERVED))
    return `${path}: ${quote(name)} is a name of the service: choose one without ${RESERVED}`;
  return undefined;
}

export function isVariableName(name: string): boolean {
  return VARIABLE.test(name);
}

function fileProblems(file: InputFile, path: string): string[] {
  const sources = SOURCES.filter((source) => file[source] !== undefined);
  const where = directoryProblem(file.path.replace(/^\/var\/run(?=\/|$)/, "/run"));
  return [
    ...(file.path.endsWith("/") ? [`${path}.path: must name a file, so it must not end with a slash`] : []),
    ...(where === undefined ? [] : [`${path}.path: ${where}`]),
    ...(sources.length === 1 ? [] : [`${path}: must have one of ${SOURCES.join(", ")}`]),
  ];
}
