import { Transform } from "node:stream";
import type { ArchiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { Acknowledgement } from "../../../crds/snapshots/acknowledgement.ts";
import { ExecFailure } from "../streams/exec-output.ts";
import { createListParser, type ListParser } from "./file-list.ts";
import { readFrozen } from "./freeze.ts";
import type { Judgement, ListAfter, SavedFiles } from "./saved-files.ts";
import type { SavedState } from "./saved-state.ts";

/** The most lists after an archive, if no two are the same. */
const MOST_LISTS = 4;

/** More than the output of a failure: ten lines of 500 bytes. */
const maxMarkCharacters = 16 * 1024;

/** dd pads its last block with zeros, so its count of blocks gives the count of bytes. */
export const BLOCK_BYTES = 64 * 1024;

/** The archive lacks some of the files, which have moved while they were read, or is of no use. */
export class ReadAgain extends Error {
  constructor(why = "files moved while they were read", options?: ErrorOptions) {
    super(why, options);
  }
}

/** The program had changed something before it was stopped, so the files are not of one moment. */
export class MovedOn extends Error {}

/** The output of the script: the owner of the files, their list, and then the archive, which it passes on. */
export function createOutput(
  list: ListParser,
  onBytes: ((bytes: number) => void) | undefined,
): {
  readonly stream: Transform;
  /** Resolves when the list is complete. */
  readonly isListed: Promise<void>;
  owner(): string | undefined;
  /** The error messages of a failed list. */
  words(): string;
} {
  let pending = Buffer.alloc(0);
  let owner: string | undefined;
  let words: string | undefined;
  let announce = ignore;
  const isListed = new Promise<void>((resolve) => {
    announce = resolve;
  });

  function take(chunk: Buffer): Buffer | undefined {
    if (list.end !== undefined) return chunk;
    let rest: Buffer | undefined = chunk;
    if (owner === undefined) {
      pending = Buffer.concat([pending, chunk]);
      const end = pending.indexOf(10);
      if (end > maxMarkCharacters || (end === -1 && pending.length > maxMarkCharacters)) {
        throw new Error("Cannot read what a pod sends: it begins with other lines than it should");
      }
      if (end === -1) return undefined;
      owner = pending.toString("utf8", 0, end);
      rest = pending.subarray(end + 1);
    }
    if (words === undefined) rest = list.take(rest);
    if (list.end !== undefined) announce();
    else if (rest !== undefined) words = ((words ?? "") + rest.toString("latin1")).slice(0, maxMarkCharacters);
    return list.end === undefined || rest?.length === 0 ? undefined : rest;
  }

  const stream = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      try {
        onBytes?.(chunk.length);
        callback(null, take(chunk));
      } catch (error) {
        callback(error as Error);
      }
    },
  });
  // Its error is thrown where it is awaited.
  stream.on("error", ignore);
  return { stream, isListed, owner: () => owner, words: () => words ?? "" };
}

/** The output of the script after the archive: its result, and then lists until the files stay the same. */
export function createEnd(options: {
  files: SavedFiles;
  /** The list before the archive. */
  listed: ListParser;
  /** Also reads the first list after the archive, if it differs from that before. */
  state: Pick<SavedState, "after">;
  acknowledgement: Acknowledgement;
  limits: ArchiveLimits;
  isLast: boolean;
  /** Of the archive. */
  bytesIn: () => number;
  /** Called with the milliseconds for which the program was stopped. */
  onFrozen?: ((ms: number) => void) | undefined;
  /** Whether the list before has to be that of the moment at which the program was stopped, if it was. */
  mustBeSame: boolean;
}): {
  take(chunk: Buffer): void;
  /**
   * @throws ExecFailure unless the pod has confirmed that it read and sent all files, and all bytes have arrived
   * @throws ReadAgain if a moved file may be the cause
   * @throws MovedOn as it says
   */
  judge(ended: { exitCode: number; stderr: string; words: string }): Judgement;
} {
  const { files, listed, state, acknowledgement, limits, isLast, bytesIn, onFrozen, mustBeSame } = options;
  const { maxEntries } = limits;
  let text = "";
  let sent: number | undefined;
  let reading: { readonly parser: ListParser; readonly after: ListAfter; rest: string | undefined } | undefined;
  let lists = 0;
  let shape: string | undefined;
  let result: Judgement | undefined;
  let hasMovedOn = false;

  function readList(): void {
    lists += 1;
    const after = files.after();
    const readers = lists === 1 ? [after, state.after] : [after];
    reading = { after, parser: createListParser(readers, { maxEntries, heads: undefined }), rest: undefined };
    acknowledgement.say("list");
  }

  function endArchive(): void {
    const [, blocks, digest] = /^good (\d+) \d+\n(?:froze \d+\n)?list ([0-9a-f]{64}) {2}-\nend\n$/.exec(text) ?? [];
    const ms = readFrozen(text);
    if (ms !== undefined) onFrozen?.(ms);
    hasMovedOn = mustBeSame && ms !== undefined && digest !== listed.end?.digest;
    if (blocks !== undefined) sent = Number(blocks) * BLOCK_BYTES;
    if (sent !== bytesIn() || hasMovedOn) {
      acknowledgement.send();
    } else if (digest === listed.end?.digest && listed.end?.vanished === 0 && files.isWhole()) {
      result = { isWhole: true, problem: undefined };
      acknowledgement.send();
    } else {
      shape = listed.end?.vanished === 0 ? files.shapeBefore() : undefined;
      readList();
    }
  }

  function endList({ parser, after }: { parser: ListParser; after: ListAfter }): void {
    if (parser.end === undefined) {
      acknowledgement.send();
      return;
    }
    const { judgement, shape: shapeNow } = after.judge();
    const isStill = parser.end.vanished === 0 && shapeNow === shape;
    // If no two lists are the same, the archive also needs the files that only one of them shows.
    if (isStill || result === undefined) result = judgement;
    else if (result.problem === undefined) result = { ...judgement, isWhole: judgement.isWhole && result.isWhole };
    shape = parser.end.vanished === 0 ? shapeNow : undefined;
    if (isStill || lists === MOST_LISTS) acknowledgement.send();
    else readList();
  }

  return {
    take(chunk) {
      if (reading === undefined) {
        text = (text + chunk.toString("latin1")).slice(0, maxMarkCharacters);
        if (text.endsWith("\nend\n")) endArchive();
        return;
      }
      if (reading.rest !== undefined) reading.rest += chunk.toString("latin1");
      else reading.rest = reading.parser.take(chunk)?.toString("latin1");
      reading.rest = reading.rest?.slice(0, maxMarkCharacters);
      if (reading.rest?.endsWith("end\n")) endList(reading);
    },
    judge({ exitCode, stderr, words }) {
      const said = [words, text, reading?.rest ?? ""].map((part) => /^failed\n(.*)\nend\n$/s.exec(part)?.[1]);
      const why = said.find((part) => part !== undefined);
      // If a file with a line break in its name vanished, the message looks like another failure.
      if (why !== undefined && !isLast && /No such file|Not a directory/.test(why)) throw new ReadAgain(why);
      if (hasMovedOn) throw new MovedOn();
      if (why !== undefined) throw failed(Buffer.from(why, "latin1").toString("utf8"), exitCode);
      if (sent === undefined || exitCode !== 0 || (sent === bytesIn() && result === undefined)) {
        throw failed(stderr.trim() || `it ended with ${exitCode} and does not say that all was sent`, exitCode);
      }
      if (result === undefined) throw failed(`of ${sent} bytes ${bytesIn()} arrived`, exitCode);
      return result;
    },
  };
}

export function failed(why: string, exitCode = 1): ExecFailure {
  return new ExecFailure(`Cannot save the overlay directories: ${why}`, { exitCode });
}

function ignore(): void {
  // The failure is thrown where it is awaited.
}
