import type { FilePath } from "./file-path.ts";
import { filePath } from "./folder.ts";

/** A link that downloads a file, or a folder as a tar.gz. */
export function Download(props: { instance: string; path: FilePath; label?: string; isFolder?: boolean }) {
  const { instance, path, label, isFolder = false } = props;
  const href = `/api/v1${filePath(instance, path)}${isFolder ? "?archive=tar.gz" : ""}`;
  return (
    <a download class="button" aria-label={label} href={href}>
      Download
    </a>
  );
}
