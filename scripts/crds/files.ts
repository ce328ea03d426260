import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";
import { endpointPort } from "../../crds/defaults.ts";
import { definitions } from "../../crds/definitions/definition.ts";
import { type JsonSchema, plainSchema } from "../../crds/schema/schema.ts";
import { type WorkloadSpec, workloadSpecSchema, workloadStatusSchema } from "../../crds/workload.ts";

const HEADER = "# Generated from the TypeBox schemas in crds/ by `npm run crds`: change those, not this file.\n";

/** One generated file. */
export interface GeneratedFile {
  /** The path below the root, such as `crds/tenancyclaims.yaml`. */
  path: string;
  text: string;
  /** Whether the file below the root is missing or different. */
  stale: boolean;
}

/** The YAML files of the four kinds and the page of a workload's fields, compared with the files below a root. */
export async function generatedFiles(root: string): Promise<GeneratedFile[]> {
  const kinds = definitions.map((definition) => ({
    path: `crds/${definition.spec.names.plural}.yaml`,
    text: HEADER + stringify(definition, { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
  const page = { path: "docs/reference/workload.md", text: await workloadPage() };
  return Promise.all(
    [...kinds, page].map(async ({ path, text }) => {
      const present = await readFile(join(root, path), "utf8").catch(() => undefined);
      return { path, text, stale: present !== text };
    }),
  );
}

const EXAMPLE = "manifests/examples/every-field-workload.yaml";
/** A workload has one call of a program that is told of its claim, and this example has the other. */
const TOLD_EXAMPLE = "manifests/examples/welcome-workload.yaml";
/** A workload has `vcpus` or `milliCpus`, and one health check: these examples have the others. */
const WHOLE_EXAMPLE = "manifests/examples/gpu-workload.yaml";
const COMMAND_EXAMPLE = "manifests/examples/settings-workload.yaml";
/** Fields of this form are Kubernetes' own, and are described there. */
const OF_KUBERNETES: readonly [path: RegExp, page: string][] = [
  [/^scheduling\.affinity\.\w+$/, "concepts/scheduling-eviction/assign-pod-node/#affinity-and-anti-affinity"],
  [/\.labelSelector$/, "reference/kubernetes-api/common-definitions/label-selector/"],
];
const BUILT_EXAMPLES = ["manifests/examples/built-workload.yaml", "manifests/examples/git-workload.yaml"];

/** The page of a workload's fields. The fields of an image that is built are in separate examples. */
async function workloadPage(): Promise<string> {
  const example = await readFile(new URL(`../../${EXAMPLE}`, import.meta.url), "utf8");
  const { spec } = parse(example) as { spec: WorkloadSpec };
  const built = await Promise.all(BUILT_EXAMPLES.map(async (path) => (await exampleSpec(path)).image));
  const context = Object.assign({}, ...built.map((image) => image.context));
  const onClaim = { ...spec.entrypoint?.onClaim, ...(await exampleSpec(TOLD_EXAMPLE)).entrypoint?.onClaim };
  const image = Object.assign({ ...spec.image }, ...built, { context });
  const whole = await exampleSpec(WHOLE_EXAMPLE);
  const resources = { ...whole.resources, ...spec.resources };
  const health = { ...whole.health, ...(await exampleSpec(COMMAND_EXAMPLE)).health, ...spec.health };
  const shown = { ...spec, image, resources, health, entrypoint: { ...spec.entrypoint, onClaim } };
  const rows = fieldRows(plainSchema(workloadSpecSchema), { path: "", example: shown });
  const program = workloadStatusSchema.properties.entrypoint.properties;
  const statusRows = Object.entries(program).map(
    ([field, { description = "" }]) => `| \`${field}\` | ${description} |`,
  );
  return `<!-- Generated from crds/workload.ts and ${EXAMPLE} by \`npm run crds\`: change those, not this file. -->

# The fields of a workload

This page is for everyone who writes a workload. Look up here every field of \`spec\`, with its limits, default and an example, and what
the status says of the image's own program.

The fields are the same in \`kubectl apply\` and in the body of \`POST /workloads\`. Only \`image\` is required. A field that is not in
this table is refused. \`kubectl explain tenancyworkload.spec --recursive\` prints the fields with their types.

| field | type and limits | default | example | |
| --- | --- | --- | --- | --- |
${rows.join("\n")}

**Port of a claim's \`endpoint\`**: the first of \`network.ports\`. Without ports it is the port of
\`health.httpGet\` or \`health.tcpSocket\`, and without these ${endpointPort({ image: {} })}.

**Ready**: an instance is ready when its health check passes.

| workload | ready when |
| --- | --- |
| with \`health.httpGet\` | a GET of it is answered with success |
| with \`health.tcpSocket\` | its port takes connections |
| with \`health.exec\` | its command ends with 0 |
| with \`health\` but none of these, or with \`network.ports\` and no \`health\` | its first port takes connections |
| with neither \`health\` nor \`network.ports\` | its program has run for 2 s, so a cold claim takes 2 s longer ([why](../decisions/claims.md#a-program-without-a-probe-has-to-run-for-two-seconds)) |

Give workloads a \`health.httpGet\`: a command costs the node far more (about 0.1 s of a CPU each time). There is no liveness probe
([why](../decisions/claims.md#a-start-up-probe-every-second-and-no-liveness-probe)).

## The image's own program

A workload with \`filesystem.overlayDirs\` and without \`entrypoint.cmd\` has in \`status.entrypoint\` the program that its image names.
The operator reads it from the image's registry, with the Secrets that the pods pull with and the registry settings of
[builds](../how-to/set-up-builds.md). Of an image for several architectures it takes the one of the operator's own node.

| field of \`status.entrypoint\` | |
| --- | --- |
${statusRows.join("\n")}

The condition \`EntrypointKnown\` says whether it is known. While it is false, the workload is ready all the same: set
\`entrypoint.cmd\`, or remove the cause that [its reason](reasons.md#workloads) names.

## All fields in one workload

Except those of an image that is built (\`${BUILT_EXAMPLES[0]}\`, [how to build](../how-to/build-an-image.md)),
\`resources.vcpus\` and \`health.tcpSocket\` (\`${WHOLE_EXAMPLE}\`), \`health.exec\` (\`${COMMAND_EXAMPLE}\`) and
\`entrypoint.onClaim.httpPost\` (\`${TOLD_EXAMPLE}\`):

\`\`\`yaml
${example.trimEnd()}
\`\`\`
`;
}

async function exampleSpec(path: string): Promise<WorkloadSpec> {
  const text = await readFile(new URL(`../../${path}`, import.meta.url), "utf8");
  const all = parseAllDocuments(text).map((document) => document.toJS() as { kind: string; spec: WorkloadSpec });
  return all.find(({ kind }) => kind === "TenancyWorkload")?.spec as WorkloadSpec;
}

function fieldRows(schema: JsonSchema, { path, example }: { path: string; example: unknown }): string[] {
  const { items, properties } = schema;
  const [, page] = OF_KUBERNETES.find(([form]) => form.test(path)) ?? [];
  if (page !== undefined)
    return [row(schema, { path, example, type: `[of Kubernetes](https://kubernetes.io/docs/${page})` })];
  if (items?.properties !== undefined) return fieldRows(items, { path: `${path}[]`, example: mergedEntries(example) });
  if (properties === undefined) return [row(schema, { path, example })];
  return Object.entries(properties).flatMap(([name, field]) => {
    const inner = (example as Record<string, unknown> | undefined)?.[name];
    return fieldRows(field, { path: path === "" ? name : `${path}.${name}`, example: inner });
  });
}

/** The fields of all entries; of the same field, that of the first entry. */
function mergedEntries(example: unknown): unknown {
  return Array.isArray(example) ? Object.assign({}, ...example.toReversed()) : undefined;
}

function row(
  schema: JsonSchema,
  { path, example, type = typeOf(schema) }: { path: string; example: unknown; type?: string },
): string {
  const fallback = schema.default === undefined ? "" : code(schema.default);
  const shown = example === undefined ? "" : code(example);
  return `| \`${path}\` | ${type} | ${fallback} | ${shown} | ${schema.description ?? ""} |`;
}

function typeOf({ type, enum: words, items, additionalProperties, ...limits }: JsonSchema): string {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, maxProperties } = limits;
  if (words !== undefined) return words.map(code).join(", ");
  const inner = items ?? additionalProperties;
  const most = maxItems ?? maxProperties;
  const several = `${inner?.type === "integer" ? "numbers" : "texts"}${type === "object" ? " by name" : ""}`;
  if (inner !== undefined) return `${range(minItems, most)} ${several}, each ${typeOf(inner)}`.trim();
  if (type === "integer") return range(minimum, maximum);
  if (type === "boolean") return "true, false";
  return `text of ${range(minLength, maxLength)} characters`;
}

function range(least: number | undefined, most: number | undefined): string {
  return least === undefined ? `at most ${most}` : `${least} to ${most}`;
}

/** A value as YAML. A bar is escaped, since it would end the table's cell. */
function code(value: unknown): string {
  return `\`${(typeof value === "string" ? value : JSON.stringify(value)).replaceAll("|", "\\|")}\``;
}
