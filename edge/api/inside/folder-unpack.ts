import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import type { ArchiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { TarEntry } from "../../../crds/archive/tar-header.ts";
import { HttpError } from "../../http/http-error.ts";
import { readUpload } from "../../http/upload.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { pathText } from "../snapshots/saved-paths.ts";
import { readUploadedArchive } from "../uploaded-archive.ts";
import type { Inside } from "./call-inside.ts";
import { fileOf } from "./file-entry.ts";

/** The pod's disk is the limit for contents. The names of folders are kept in the pod's memory until the end. */
const LIMITS: ArchiveLimits = {
  maxBytes: 2 ** 40,
  maxEntries: 1_000_000,
  maxPathBytes: 4096,
  maxDepth: 128,
  maxRememberedBytes: 16 * 1024 * 1024,
};
/** Each can take 100 MB of memory, for the names in it. */
const UNPACKS_AT_ONCE = 4;

/** Unpacks a request's body, a tar or tar.gz, into a folder of an instance. */
export type UnpackFolder = (
  request: Request,
  /** `path` is without the slash at its start; bytes, one per character. `isNew`: it must not be there. */
  to: { readonly path: string; readonly isNew: boolean },
  inside: Inside,
) => Promise<ApiTypes["InstanceFile"]>;

/**
 * Creates the function that unpacks. The pod gets an archive that is written again from the parsed entries, and uses it
 * only when all of it has come and is right.
 *
 * @returns throws HttpError 400 for what is no archive or holds what is not allowed, 413 over a limit, 503 while there
 * are too many at once, and what a call of the pod throws
 */
export function createUnpackFolder(): UnpackFolder {
  let unpacking = 0;
  return async function unpackFolder(request, to, inside) {
    if (unpacking >= UNPACKS_AT_ONCE) {
      throw new HttpError(503, `${UNPACKS_AT_ONCE} archives are being unpacked already; try again soon`, {
        headers: { "retry-after": "5" },
      });
    }
    unpacking += 1;
    try {
      return await unpack(request, to, inside);
    } finally {
      unpacking -= 1;
    }
  };
}

async function unpack(...[request, { path, isNew }, inside]: Parameters<UnpackFolder>): ReturnType<UnpackFolder> {
  const upload = readUpload(request, { limit: LIMITS.maxBytes, clientGone: inside.clientGone });
  const unpacked = { files: 0, folders: 0, links: 0, bytes: 0 };

  function count({ type, size }: TarEntry): void {
    unpacked[type === "directory" ? "folders" : type === "file" ? "files" : "links"] += 1;
    unpacked.bytes += size;
  }

  // Its owner is the workload's user.
  const rewrite = (entry: TarEntry): TarEntry => ({ ...entry, uid: 0, gid: 0 });
  const check = createArchiveCheck({ roots: "folder", limits: LIMITS, takesPax: true, rewrite, onEntry: count });
  const archive = readUploadedArchive(upload.chunks, { check, mustBe: "a tar or tar.gz" });
  try {
    const failure = { path: pathText(`/${path}`), mayHaveActed: true };
    const answer = await inside.ask("unpack", { path: `/${path}`, isNew }, { input: archive.content, failure });
    return { ...fileOf(answer), unpacked };
  } catch (error) {
    throw archive.failure(error);
  } finally {
    upload.close();
  }
}
