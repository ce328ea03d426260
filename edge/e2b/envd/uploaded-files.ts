import { Readable, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { Busboy, type BusboyInstance } from "@fastify/busboy";
import { quote } from "../../../crds/quote.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { HttpError } from "../../http/http-error.ts";
import { readUpload } from "../../http/upload.ts";

/** A file of a request, as it arrives. Read it to its end, or throw. */
interface UploadedFile {
  readonly path: string;
  readonly content: AsyncIterable<Uint8Array>;
}

/** The pod's disk is the limit. */
const MAX_BYTES = 2 ** 40;
const LIMITS = {
  fields: 100,
  fieldSize: 64 * 1024,
  files: 10_000,
  parts: 10_100,
  headerPairs: 50,
  headerSize: 16 * 1024,
};

/**
 * Reads the files of a request one after the other: the body itself, or the parts of a form that are named `file`.
 *
 * @param options.path where the file belongs. @default the file names of the form
 * @throws HttpError 400 for another type, encoding or form, 413 for too many files; as `readUpload` does
 */
export async function* readFiles(
  request: Request,
  { path, clientGone }: { path: string | undefined; clientGone: AbortSignal },
): AsyncGenerator<UploadedFile, void> {
  const type = request.headers.get("content-type") ?? "";
  const encoding = (request.headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding !== "identity" && encoding !== "gzip")
    throw new HttpError(400, `content-encoding: must be gzip, or absent, got ${quote(encoding)}`);
  const isForm = /^multipart\/form-data *;/i.test(type);
  if (!isForm && !/^application\/octet-stream *(;|$)/i.test(type))
    throw new HttpError(
      400,
      `content-type: must be multipart/form-data or application/octet-stream, got ${quote(type)}`,
    );
  if (!isForm && path === undefined) throw new HttpError(400, "query.path: is required for this content-type");
  const upload = readUpload(request, { limit: MAX_BYTES, clientGone });
  const unpacking = encoding === "gzip" ? [createGunzip()] : [];
  try {
    if (isForm) yield* formFiles(upload.chunks, { unpacking, type, path });
    else
      yield { path: path ?? "", content: unpacking.length === 0 ? upload.chunks : unpacked(upload.chunks, unpacking) };
  } catch (error) {
    throw asHttpError(error);
  } finally {
    upload.close();
  }
}

async function* unpacked(chunks: AsyncIterable<Uint8Array>, unpacking: Transform[]): AsyncGenerator<Uint8Array, void> {
  const [gunzip] = unpacking as [Transform];
  const piped = pipeline(Readable.from(chunks), gunzip);
  piped.catch(() => undefined);
  try {
    yield* gunzip;
    await piped;
  } catch (error) {
    throw asHttpError(error);
  } finally {
    gunzip.destroy();
  }
}

async function* formFiles(
  chunks: AsyncIterable<Uint8Array>,
  { unpacking, type, path }: { unpacking: Transform[]; type: string; path: string | undefined },
): AsyncGenerator<UploadedFile, void> {
  const form = openForm(type);
  const found: { path: string | undefined; content: Readable }[] = [];
  /** The file that is being read. */
  const current: { content: Readable }[] = [];
  let more = createDeferred<void>();
  let isOver = false;
  let refused: HttpError | undefined;
  form.on("file", (field, content, name: string | undefined) => {
    // Its reader may be gone when it breaks off.
    content.on("error", () => undefined);
    if (field !== "file") content.resume();
    else found.push({ path: path ?? name, content });
    more.resolve();
  });
  for (const event of ["filesLimit", "partsLimit", "fieldsLimit"] as const)
    form.on(event, () => {
      refused = new HttpError(413, "body: the form has too many parts");
    });
  const piped = pipeline([Readable.from(chunks), ...unpacking, form]).then(
    () => undefined,
    (error: unknown) => {
      for (const { content } of [...found, ...current]) content.destroy(error as Error);
      return error;
    },
  );
  void piped.then(() => {
    isOver = true;
    more.resolve();
  });
  try {
    for (;;) {
      const file = found.shift();
      if (file === undefined) {
        if (isOver) break;
        await more.promise;
        more = createDeferred();
        continue;
      }
      if (file.path === undefined || file.path === "")
        throw new HttpError(400, "body: a file of the form has no file name");
      current[0] = file;
      yield { path: file.path, content: readable(file.content) };
    }
    const error = refused ?? (await piped);
    if (error !== undefined) throw error;
  } finally {
    form.destroy();
  }
}

function openForm(type: string): BusboyInstance {
  try {
    return new Busboy({ headers: { "content-type": type }, preservePath: true, limits: LIMITS });
  } catch (cause) {
    throw new HttpError(400, "content-type: the form has no boundary", { cause });
  }
}

async function* readable(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    yield* content;
  } catch (error) {
    throw asHttpError(error);
  }
}

function asHttpError(error: unknown): unknown {
  if (error instanceof HttpError || !(error instanceof Error)) return error;
  return new HttpError(400, `body: cannot be read: ${error.message}`, { cause: error });
}
