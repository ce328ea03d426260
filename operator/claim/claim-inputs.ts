import type { Claim } from "../../crds/claim.ts";
import {
  DEFAULT_MODE,
  INPUT_FILES_LIMIT,
  type InputFile,
  inputProblems,
  isVariableName,
  ownContent,
  sizeProblem,
  variableProblem,
  withoutInputs,
} from "../../crds/claims/claim-inputs.ts";
import { configMaps, secrets as secretObjects } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import type { ConfigMap, Secret } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { isMeantFor, secretRefusal, USE_LABEL } from "../../crds/secret-refusal.ts";
import { sleep } from "../../crds/waits.ts";
import type { GivenFile, ReadInputs } from "../launcher/given-inputs.ts";
import type { ClaimContext } from "./context.ts";

/** A claim as the operator's cache keeps it: the inputs of an Active one are used. */
export function withoutUsedInputs(claim: Claim): Claim {
  return claim.status?.phase === "Active" ? withoutInputs(claim) : claim;
}

/** More people may create claims than workloads. */
const POLICY = "labelled";

// For a Secret that its claim call is about to create. Its first read comes when it can be there: 15 claims then made
// 15 reads, and 21 without that pause. The start of the program is tried again later.
const HEAD_START_MS = 8;
const FIRST_WAIT_MS = 5;
const LONGEST_WAIT_MS = 320;

/** Inputs that are not there yet. */
export class InputsMissing extends Error {}

/** Inputs that a claim cannot have, however often it is tried. */
export class InputsRefused extends Error {}

/**
 * Reads what a claim gives to its program. A Secret or ConfigMap has to be meant for claims, or belong to
 * the claim: the claim's author may have no right to read others.
 *
 * @returns undefined if it gives nothing
 * @throws InputsRefused if it breaks a rule; the message contains no value
 * @throws InputsMissing if an object or a key is not there
 */
export async function readInputs(
  claim: Claim,
  context: Pick<ClaimContext, "cluster">,
  { signal }: { signal: AbortSignal },
): Promise<ReadInputs | undefined> {
  const { inputs } = claim.spec;
  if (inputs === undefined) return undefined;
  const [problem] = inputProblems(inputs, "spec.inputs");
  if (problem !== undefined) throw new InputsRefused(problem);
  const read = createReader(claim, context, signal);
  const env = new Map(Object.entries(inputs.env ?? {}));
  const secrets = new Map<string, Buffer>();
  if (inputs.secretRef !== undefined) {
    const { name } = inputs.secretRef;
    const { data = {} } = await read.secret(name);
    for (const [key, value] of Object.entries(data)) {
      if (!isVariableName(key)) continue;
      const refused = variableProblem(key, `spec.inputs: Secret ${name}`);
      if (refused !== undefined) throw new InputsRefused(refused);
      const text = Buffer.from(value, "base64");
      if (text.includes(0))
        throw new InputsRefused(`spec.inputs: Secret ${name}: ${key} has a zero byte, which no variable can have`);
      secrets.set(key, text);
      env.delete(key);
    }
  }
  const tooMany = sizeProblem(new Map<string, string | Buffer>([...env, ...secrets]), "spec.inputs");
  if (tooMany !== undefined) throw new InputsRefused(tooMany);
  const files: GivenFile[] = [];
  let bytes = 0;
  for (const file of inputs.files ?? []) {
    const content = await contentOf(file, read);
    bytes += content.length;
    if (bytes > INPUT_FILES_LIMIT)
      throw new InputsRefused(
        `spec.inputs.files: they have more than ${INPUT_FILES_LIMIT} bytes together: let the program fetch large ones`,
      );
    files.push({ path: file.path, mode: file.mode ?? DEFAULT_MODE, content });
  }
  return { env, secrets, files };
}

type Reader = ReturnType<typeof createReader>;

function createReader(
  { metadata, spec, status }: Claim,
  { cluster }: Pick<ClaimContext, "cluster">,
  signal: AbortSignal,
) {
  const hint =
    status?.phase === "Active"
      ? "release the claim, and bring the secrets with the next one"
      : "its claim call was cut off, so bring the secrets again";
  return { secret: once(readSecret), configMap: once(readConfigMap) };

  async function readSecret(name: string): Promise<Secret> {
    const reserved = secretRefusal({ name, secret: undefined, use: "claim", policy: POLICY });
    if (reserved !== undefined) throw new InputsRefused(`spec.inputs: ${reserved}`);
    // A claim call creates its claim first, since the Secret is to be deleted with it.
    const isOfCall =
      metadata.annotations?.[annotation.secretDigests] !== undefined && spec.inputs?.secretRef?.name === name;
    const secret = required(await findSecret(name, isOfCall), `Secret ${name}`, isOfCall ? hint : undefined);
    const isOwn = secret.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid) === true;
    // Its own needs no label, but cannot be one that Kubernetes fills in.
    const refusal = secretRefusal({ name, secret, use: "claim", policy: isOwn ? "any" : POLICY, isOwn });
    if (isOfCall && !isOwn)
      throw new InputsRefused(`spec.inputs: Secret ${name} was not created by the claim call: release the claim`);
    if (refusal !== undefined) throw new InputsRefused(`spec.inputs: ${refusal}`);
    return secret;
  }

  async function findSecret(name: string, isAwaited: boolean): Promise<Secret | undefined> {
    if (isAwaited) await sleep(HEAD_START_MS, { clock: systemClock, signal });
    for (let waitMs = FIRST_WAIT_MS; ; waitMs *= 2) {
      const secret = await cluster(secretObjects).named(name).find({ refresh: true, signal });
      if (secret !== undefined || !isAwaited || waitMs > LONGEST_WAIT_MS) return secret;
      await sleep(waitMs, { clock: systemClock, signal });
    }
  }

  async function readConfigMap(name: string): Promise<ConfigMap> {
    const found = required(await cluster(configMaps).named(name).find({ refresh: true, signal }), `ConfigMap ${name}`);
    if (isMeantFor("claim", found.metadata.labels)) return found;
    throw new InputsRefused(`spec.inputs: ConfigMap ${name} is not labelled ${USE_LABEL}=claim: label it`);
  }
}

/** Reads each object once, however many files are in it. */
function once<T>(read: (name: string) => Promise<T>): (name: string) => Promise<T> {
  const found = new Map<string, Promise<T>>();
  return (name) => {
    const reading = found.get(name) ?? read(name);
    found.set(name, reading);
    return reading;
  };
}

async function contentOf(file: InputFile, read: Reader): Promise<Buffer> {
  const { configMapRef, secretRef } = file;
  if (secretRef !== undefined) {
    const { data = {} } = await read.secret(secretRef.name);
    return Buffer.from(
      required(ownValue(data, secretRef.key), `key ${secretRef.key} of Secret ${secretRef.name}`),
      "base64",
    );
  }
  if (configMapRef !== undefined) {
    const { name, key } = configMapRef;
    const { data, binaryData } = await read.configMap(name);
    const binary = ownValue(binaryData, key);
    if (binary !== undefined) return Buffer.from(binary, "base64");
    return Buffer.from(required(ownValue(data, key), `key ${key} of ConfigMap ${name}`));
  }
  return ownContent(file);
}

function required<T>(value: T | undefined, what: string, hint = "create it"): T {
  if (value === undefined) throw new InputsMissing(`spec.inputs: ${what} does not exist: ${hint}`);
  return value;
}

function ownValue(data: Readonly<Record<string, string>> | undefined, key: string): string | undefined {
  return data !== undefined && Object.hasOwn(data, key) ? data[key] : undefined;
}
