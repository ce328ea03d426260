import { pipeline } from "node:stream";
import type { ArchiveCheck } from "../../crds/archive/archive-check.ts";
import { ArchiveError } from "../../crds/archive/archive-error.ts";
import { openPacked, unpackError } from "../../crds/archive/packed-tar.ts";
import { HttpError } from "../http/http-error.ts";

/** A tar or tar.gz in a request's body, checked as it is read. */
export interface UploadedArchive {
  /** What the check lets through, packed. Fails where the check does. */
  readonly content: AsyncGenerator<Uint8Array>;
  /** The request's error when the reader of the content failed with `error`, which may only say that it broke off. */
  failure(error: unknown): unknown;
}

/**
 * Reads an archive through a check. It is written again from the parsed entries, so that no reader can interpret it
 * differently from the check.
 *
 * @param options.mustBe what the body must be, for the message of an HttpError 400, or 413 over a limit
 */
export function readUploadedArchive(
  body: AsyncIterable<Uint8Array>,
  options: {
    readonly check: ArchiveCheck;
    readonly mustBe: string;
    /** @default as it is */
    readonly pack?: (tar: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  },
): UploadedArchive {
  const { check, mustBe, pack = (tar) => tar } = options;
  let problem: unknown;

  async function* source(): AsyncGenerator<Uint8Array> {
    yield* body;
  }

  async function* content(): AsyncGenerator<Uint8Array> {
    try {
      const { input, unpacked } = await openPacked(source());
      // The reader of the last stream sees every failure.
      const output = pipeline(input, unpacked, check.stream, () => undefined);
      try {
        yield* pack(output);
      } finally {
        output.destroy();
      }
    } catch (error) {
      problem = error instanceof ArchiveError ? error : unpackError(check.stream.errored ?? error);
      throw problem;
    }
  }

  return {
    content: content(),
    failure(error) {
      const why = problem ?? error;
      if (!(why instanceof ArchiveError)) return why;
      return new HttpError(why.reason === "TooLarge" ? 413 : 400, `body: must be ${mustBe}: ${why.message}`);
    },
  };
}
