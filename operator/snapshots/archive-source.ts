import { pipeline, type Readable, Transform, type Writable } from "node:stream";
import { createAcknowledgement } from "../../crds/snapshots/acknowledgement.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { createLineTaker } from "./take-lines.ts";

/** Both ends of the store's command that reads an archive. */
export interface ArchiveSource {
  readonly stdin: Readable;
  readonly stdout: Writable;
  /** To be called when the command has ended well; resolves with the recorded metadata when the archive is written. */
  end(): Promise<SnapshotMetadata[]>;
}

/** Parses the output of the store's script `read`, writes the archive to a stream and acknowledges it. */
export function createArchiveSource(archive: Writable): ArchiveSource {
  const acknowledgement = createAcknowledgement();
  const head = createLineTaker((line) => line === "");
  let bytes = 0;
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      bytes += chunk.length;
      if (bytes === Number(head.lines()?.[0])) acknowledgement.send();
      callback(null, chunk);
    },
  });
  const written = new Promise<void>((resolve, reject) => {
    pipeline(head.stream, counter, archive, (error) => (error ? reject(error) : resolve()));
  });
  written.catch(ignore);
  return {
    stdin: acknowledgement.stdin,
    stdout: head.stream,
    async end() {
      head.stream.end();
      await written;
      const [, ...lines] = head.lines() ?? [];
      return lines.map(parseSnapshotMetadata).filter((found) => found !== undefined);
    },
  };
}

function ignore(): void {
  // The failure is thrown by what the command ends with.
}
