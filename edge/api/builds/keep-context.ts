import { createHash } from "node:crypto";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { checkContext } from "../../../crds/archive/check-context.ts";
import { contextScripts, NO_CONTEXT, UPLOAD_END } from "../../../crds/builds/context-store.ts";
import { ifFound } from "../../../crds/client/api-error.ts";
import { persistentVolumeClaims } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { bytesOf, isQuantity } from "../../../crds/environment.ts";
import { annotation } from "../../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import type { Workload } from "../../../crds/workload.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { readUpload, UPLOAD_LIMIT_MS } from "../../http/upload.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { runInStore, type StoreAnswer, storeState, volumeFailure } from "../snapshots/archive-store.ts";
import { annotateWorkload, readWorkload, workloadTerminating } from "../workloads.ts";

/** What an upload works with. */
export interface ContextServices {
  readonly client: ClusterClient;
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "workloads">;
  readonly kubectl: Kubectl;
  readonly clock: Clock;
  /** 16 hexadecimal digits, others each time. */
  readonly randomId: () => string;
  readonly contextLimitBytes: number;
}

/** A context that is kept. */
export interface KeptContext {
  readonly sha256: string;
  readonly sizeBytes: number;
}

const RETRY = { headers: { "retry-after": "1" } };

/**
 * Keeps the body of a request as the build context of a workload: streams it to the snapshots volume while it is
 * checked, and names it in the workload's annotation once it is there whole.
 *
 * @throws HttpError 400 that names the place, for what is no archive of a build context; 404, and 409 for a workload
 *   that is built from none; 413; 503 where the volume cannot take it; as `readUpload` and `runInStore` do
 */
export async function keepContext(
  request: Request,
  name: string,
  services: ContextServices & { clientGone: AbortSignal },
): Promise<KeptContext> {
  const { cache, contextLimitBytes, clientGone, clock } = services;
  const workload = await findBuilt(name, services);
  if ((await storeState(services)) === "none") {
    throw new HttpError(503, "the snapshots volume, which keeps build contexts, is not made yet; try again", RETRY);
  }
  const upload = readUpload(request, { limit: contextLimitBytes, clientGone, clock });
  const id = services.randomId();
  try {
    const kept = await receive(upload.chunks, { name, id }, services);
    // What the annotation names now may be of another upload since.
    const present = await findBuilt(name, services);
    const before = present.metadata.annotations?.[annotation.buildContext] ?? "";
    const words = [name, id, kept.sha256, /^[0-9a-f]{64}$/.test(before) ? before : ""];
    const answer = await run(contextScripts.keep, words, { ...services, clientGone: undefined });
    if (answer.exitCode === NO_CONTEXT) throw new HttpError(503, "the upload was deleted meanwhile; try again", RETRY);
    if (answer.exitCode !== 0 || answer.stdout !== "kept\n") throw volumeFailure(answer);
    cache.workloads.put(await annotateWorkload(workload, { [annotation.buildContext]: kept.sha256 }, services));
    return kept;
  } catch (error) {
    await drop({ name, id }, services);
    // Nobody else would delete what a workload that is gone had.
    if (error instanceof HttpError && error.status === 404) {
      await run(contextScripts.erase, [name], { ...services, clientGone: undefined });
    }
    throw error;
  } finally {
    upload.close();
  }
}

/** @throws HttpError 404; 409 unless the workload is built from an upload */
async function findBuilt(name: string, services: Pick<ContextServices, "client" | "namespace">): Promise<Workload> {
  const workload = await readWorkload(name, services);
  const { dockerfile, context } = workload.spec.image;
  if (workload.metadata.deletionTimestamp !== undefined) throw workloadTerminating(name);
  if (dockerfile === undefined) throw notBuilt(name);
  if (context !== undefined) {
    const from = context.git === undefined ? "a ConfigMap" : "Git";
    throw new HttpError(
      409,
      `workload ${quote(name)} has its build context from ${from}: leave spec.image.context out to upload one`,
    );
  }
  return workload;
}

/** The 409 of a workload whose image is not built. */
export function notBuilt(name: string): HttpError {
  return new HttpError(409, `workload ${quote(name)} is not built: its spec has image.ref and not image.dockerfile`);
}

/** Sends the body to the volume, and checks it on its way. */
async function receive(
  body: AsyncIterable<Uint8Array>,
  { name, id }: { name: string; id: string },
  services: ContextServices & { clientGone: AbortSignal },
): Promise<KeptContext> {
  const { contextLimitBytes } = services;
  const hash = createHash("sha256");
  let sizeBytes = 0;
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of body) {
      hash.update(chunk);
      sizeBytes += chunk.byteLength;
      yield chunk;
    }
  }
  const words = [name, id, String(contextLimitBytes), String(await askedBytes(services))];
  const input = checkedOnTheWay(counted(), contextLimitBytes);
  const answer = await run(contextScripts.receive, words, { ...services, input, limitMs: UPLOAD_LIMIT_MS });
  const kept = { sha256: hash.digest("hex"), sizeBytes };
  if (answer.stdout === `received ${kept.sha256} ${sizeBytes}\n`) return kept;
  if (answer.stdout === "full\n") {
    throw new HttpError(
      503,
      "the snapshots volume has no room for the build context: enlarge the volume, or delete snapshots",
      { expected: true },
    );
  }
  throw volumeFailure({ ...answer, stderr: `${answer.stdout}${answer.stderr}` });
}

/** Passes on what a client sends, and what ends an upload only where all of it was right. */
async function* checkedOnTheWay(body: AsyncIterable<Uint8Array>, limitBytes: number): AsyncGenerator<Uint8Array> {
  const copy = new PassThrough();
  // What is wrong is told by the check that reads it.
  copy.on("error", () => undefined);
  let problem: unknown;
  const checked = readThrough(checkContext(copy, { folder: "files", limitBytes })).catch((error: unknown) => {
    problem = refusal(error);
    copy.destroy();
  });
  try {
    for await (const chunk of body) {
      if (!copy.destroyed && !copy.write(chunk)) await Promise.race([once(copy, "drain"), checked]);
      if (problem !== undefined) throw problem;
      yield chunk;
    }
    copy.end();
    await checked;
    if (problem !== undefined) throw problem;
    yield Buffer.from(UPLOAD_END);
  } finally {
    copy.destroy();
  }
}

async function readThrough(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of chunks) {
    // Who builds it checks it again.
  }
}

function refusal(error: unknown): unknown {
  if (!(error instanceof ArchiveError)) return error;
  if (error.reason === "TooLarge") return new HttpError(413, `body: ${error.message}`);
  return new HttpError(400, `body: must be a build context as tar or tar.gz: ${error.message}`);
}

/** What is left of an upload that failed. Where this fails too, the operator deletes it after a day. */
async function drop({ name, id }: { name: string; id: string }, services: ContextServices): Promise<void> {
  await run(contextScripts.drop, [name, id], { ...services, clientGone: undefined }).catch(() => undefined);
}

/** What the volume was asked for with, since it may be a folder of a larger disk; 0 where that is not known. */
async function askedBytes({ client, namespace }: ContextServices): Promise<number> {
  const claim = await ifFound(client.get(persistentVolumeClaims, { namespace, name: SNAPSHOTS_NAME }));
  const { storage = "" } = claim?.spec.resources?.requests ?? {};
  return isQuantity(storage) ? bytesOf(storage) : 0;
}

function run(
  script: string,
  words: readonly string[],
  services: Pick<ContextServices, "kubectl" | "clock" | "namespace"> & {
    clientGone: AbortSignal | undefined;
    input?: AsyncIterable<Uint8Array>;
    limitMs?: number;
  },
): Promise<StoreAnswer> {
  const { kubectl, clock, namespace, clientGone, input, limitMs } = services;
  const action = { script, words, namespace, ...(input && { input }), ...(limitMs && { limitMs }) };
  return runInStore(action, { kubectl, clock, clientGone });
}
