import { type TarEntry, tarArchive } from "../../../scripts/cluster/images/tar-archive.ts";

/** Texts, or links to a path, by their paths in the context. */
export type ContextFiles = Readonly<Record<string, string | { linkTo: string }>>;

/** Returns a tar archive of a build context, below `folder` where one is given. */
export function contextArchive(files: ContextFiles, folder = ""): Buffer {
  const below = (path: string) => `${folder}${path}`;
  const folders = new Set(Object.keys(files).flatMap((path) => foldersOf(below(path))));
  const entries: TarEntry[] = [
    ...[...folders].map((path) => ({ path })),
    ...Object.entries(files).map(([path, file]) => ({
      path: below(path),
      ...(typeof file === "string" ? { content: Buffer.from(file) } : file),
    })),
  ];
  return tarArchive(entries);
}

function foldersOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}
