/**
 * The overlay directories as an archive names them: relative to `/`, in UTF-8 bytes (latin1), none inside another.
 *
 * @throws TypeError if one is not an absolute path of plain parts
 */
export function overlayRoots(overlayDirs: readonly string[]): string[] {
  const roots = overlayDirs.map((folder) => {
    const path = folder.replace(/\/+$/, "");
    const parts = path.split("/").slice(1);
    const isPlain = path.startsWith("/") && parts.every((part) => part !== "" && part !== "." && part !== "..");
    if (!isPlain || path.includes("\0")) throw new TypeError(`Cannot archive "${folder}": not the path of a directory`);
    return Buffer.from(path.slice(1), "utf8").toString("latin1");
  });
  const unique = [...new Set(roots)];
  return unique.filter((root) => !unique.some((other) => root.startsWith(`${other}/`)));
}
