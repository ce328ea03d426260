import { once } from "node:events";
import { PassThrough } from "node:stream";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { checkContext } from "../../../crds/archive/check-context.ts";
import type { KeptContext } from "../../../crds/builds/build-contexts.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import { annotation } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import type { Workload } from "../../../crds/workload.ts";
import { HttpError } from "../../http/http-error.ts";
import { readUpload, UPLOAD_LIMIT_MS } from "../../http/upload.ts";
import { askStore, type SnapshotServices } from "../snapshots/store.ts";
import { untilStore } from "../snapshots/until-store.ts";
import { annotateWorkload, readWorkload, workloadTerminating } from "../workloads.ts";

export interface ContextServices {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly store: SnapshotServices["store"];
  readonly clock: Clock;
  readonly contextLimitBytes: number;
}

/**
 * Stores the body of a request as the build context of a workload: streams it to the snapshots volume while checking
 * it, and names it in the workload's annotation once it is complete.
 *
 * @throws HttpError 400 that names the entry, if the body is not a valid build context; 404; 409 if the workload is not
 * built from an upload; 413; 503 if the store cannot take it, after 30 s if there is no volume; as `readUpload` and
 * `askStore` do
 */
export async function keepContext(
  request: Request,
  name: string,
  services: ContextServices & { clientGone: AbortSignal },
): Promise<KeptContext> {
  const { contextLimitBytes, clientGone, clock } = services;
  const workload = await findBuilt(name, services);
  await untilStore(services);
  const upload = readUpload(request, { limit: contextLimitBytes, clientGone, clock });
  const content = checkedOnTheWay(upload.chunks, contextLimitBytes);
  /** Another upload may have replaced the annotation since. */
  async function confirm(): Promise<string | undefined> {
    const present = await findBuilt(name, services);
    const before = present.metadata.annotations?.[annotation.buildContext] ?? "";
    return /^[0-9a-f]{64}$/.test(before) ? before : undefined;
  }
  try {
    const kept = await askStore(
      ({ contexts }, call) => contexts.put(name, content, { ...call, mostBytes: contextLimitBytes, confirm }),
      { ...services, limitMs: UPLOAD_LIMIT_MS },
    );
    await annotateWorkload(workload, { [annotation.buildContext]: kept.sha256 }, services);
    return kept;
  } catch (error) {
    // Nothing else would delete the context of a deleted workload.
    if (error instanceof HttpError && error.status === 404) {
      await askStore(({ contexts }, call) => contexts.erase(name, call), { ...services, clientGone: undefined });
    }
    throw error;
  } finally {
    upload.close();
  }
}

/** @throws HttpError 404; 409 unless the workload is built from an upload */
async function findBuilt(name: string, services: Pick<ContextServices, "cluster">): Promise<Workload> {
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

/** The 409 for a workload whose image is not built. */
export function notBuilt(name: string): HttpError {
  return new HttpError(409, `workload ${quote(name)} is not built: its spec has image.ref and not image.dockerfile`);
}

/** Passes on the chunks of an upload, and fails at the end if the check failed. */
async function* checkedOnTheWay(body: AsyncIterable<Uint8Array>, limitBytes: number): AsyncGenerator<Uint8Array> {
  const copy = new PassThrough();
  // The reader of the check reports the error.
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
  } finally {
    copy.destroy();
  }
}

async function readThrough(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of chunks) {
    // The builder checks it again.
  }
}

function refusal(error: unknown): unknown {
  if (!(error instanceof ArchiveError)) return error;
  if (error.reason === "TooLarge") return new HttpError(413, `body: ${error.message}`);
  return new HttpError(400, `body: must be a build context as tar or tar.gz: ${error.message}`);
}
