import { parseSnapshotMetadata, type SnapshotMetadata } from "./snapshot-metadata.ts";

/** What is recorded of each archive, from the output of the store's script `list`. */
export function parseSnapshotList(output: string): SnapshotMetadata[] {
  const [archives = "", recorded = ""] = splitOnce(output);
  const sizes = new Map(archives.split("\n").map(sizeByPath));
  const newest = new Map<string, SnapshotMetadata>();
  for (const line of recorded.split("\n")) {
    const found = parseSnapshotMetadata(line);
    if (found === undefined) continue;
    const path = `./${found.tenantId}/${found.workloadRef}.tar.gz`;
    const known = newest.get(path);
    if (sizes.get(path) !== found.sizeBytes || (known && known.createdAt >= found.createdAt)) continue;
    newest.set(path, found);
  }
  return [...newest.values()];
}

/** The two halves of a text, parted by its first empty line. */
function splitOnce(text: string): [string, string] {
  if (text.startsWith("\n")) return ["", text.slice(1)];
  const middle = text.indexOf("\n\n");
  return middle === -1 ? [text, ""] : [text.slice(0, middle), text.slice(middle + 2)];
}

function sizeByPath(line: string): [string, number] {
  const space = line.indexOf(" ");
  return [line.slice(space + 1), Number(line.slice(0, space))];
}
