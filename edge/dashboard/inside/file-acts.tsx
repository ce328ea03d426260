import { call } from "../api/call.ts";
import { confirm } from "../parts/confirm.tsx";
import { type FilePath, folderOf, type InstanceFile, nameOf, pathOf, pathProblem, typedPath } from "./file-path.ts";
import { filePath } from "./folder.ts";
import type { NameQuestion } from "./name-dialog.tsx";

/** Asks for the name of a new folder. `done` gets the outcome. */
export function newFolder(instance: string, folder: FilePath, done: (outcome: string) => void): NameQuestion {
  return {
    ...{ title: "New folder", label: "Name", initial: "", verb: "Create" },
    async act(typed) {
      const path = checked(typedPath(typed, folder));
      await call("POST", `${filePath(instance, path)}?mkdir=true`);
      done(`The folder ${nameOf(path)} was created.`);
    },
  };
}

/** Asks for the new name, or path, of a file or folder. */
export function rename(instance: string, file: InstanceFile, done: (outcome: string) => void): NameQuestion {
  const from = pathOf(file);
  const name = file.path.slice(file.path.lastIndexOf("/") + 1);
  return {
    title: `Rename or move ${nameOf(from)}`,
    ...{ label: "New name, or a path that begins with /", initial: name, verb: "Rename" },
    async act(typed) {
      const to = checked(typedPath(typed, folderOf(from)));
      await call("POST", `${filePath(instance, from)}?${new URLSearchParams({ move: to })}`);
      done(`${nameOf(from)} is now ${folderOf(to) === folderOf(from) ? nameOf(to) : `/${to}`}.`);
    },
  };
}

/** Asks for the permissions of a file or folder. */
export function changeMode(instance: string, file: InstanceFile, done: (outcome: string) => void): NameQuestion {
  const path = pathOf(file);
  return {
    title: `Mode of ${nameOf(path)}`,
    ...{ label: "Three or four octal digits, such as 0644", initial: file.mode, verb: "Change" },
    async act(mode) {
      if (!/^[0-7]{3,4}$/.test(mode)) throw new Error("A mode has three or four digits from 0 to 7, such as 0644.");
      await call("POST", `${filePath(instance, path)}?mode=${mode}`);
      done(`The mode of ${nameOf(path)} is now ${mode.padStart(4, "0")}.`);
    },
  };
}

/** Asks for confirmation first. */
export async function remove(instance: string, file: InstanceFile): Promise<string | undefined> {
  const path = pathOf(file);
  const isFolder = file.type === "directory";
  const isMeant = await confirm({
    title: `Delete ${nameOf(path)}?`,
    lost: (
      <p>
        {isFolder ? "The folder and everything in it are" : "It is"} deleted in the instance now. This cannot be undone.
      </p>
    ),
    verb: "Delete",
  });
  if (!isMeant) return undefined;
  await call("DELETE", `${filePath(instance, path)}${isFolder ? "?recursive=true" : ""}`);
  return `${nameOf(path)} was deleted.`;
}

function checked(path: FilePath): FilePath {
  const problem = pathProblem(path);
  if (problem !== undefined) throw new Error(problem);
  return path;
}
