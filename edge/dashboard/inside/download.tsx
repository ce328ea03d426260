import type { FilePath } from "./file-path.ts";
import { filePath } from "./folder.ts";

/** A link that downloads a file. */
export function Download({ instance, path, label }: { instance: string; path: FilePath; label?: string }) {
  return (
    <a download class="button" aria-label={label} href={`/api/v1${filePath(instance, path)}`}>
      Download
    </a>
  );
}
