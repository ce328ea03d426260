import { Type } from "@sinclair/typebox";
import { stringEnum } from "../../../crds/schema/schema.ts";
import { pathSchemas } from "./saved-file-schemas.ts";

const time = (description: string) => Type.String({ description, format: "date-time" });
const text = (description: string) => Type.String({ description });
const count = (description: string) => Type.Integer({ minimum: 0, description });

/** What is inside an instance. */
export const insideSchemas = {
  Process: Type.Object(
    {
      pid: Type.Integer({ minimum: 1, description: "Its number in the container." }),
      command: Type.Array(text("Program or argument."), { description: "Program and arguments." }),
      cwd: text("The folder it was started in."),
      tty: Type.Boolean({ description: "Whether it has a terminal." }),
      background: Type.Boolean({ description: "Whether it goes on without a connection." }),
      startedAt: time("When it was started."),
      state: stringEnum(["running", "ended"], { description: "Whether it still runs." }),
      endedAt: Type.Optional(time("When it ended.")),
      exitCode: Type.Optional(Type.Integer({ description: "Once it has ended, unless a signal ended it." })),
      signal: Type.Optional(text("The signal that ended it, such as `SIGKILL`.")),
      timedOut: Type.Optional(Type.Boolean({ description: "True if it was ended because its time was up." })),
      stdoutBytes: count("Bytes it has written to standard output."),
      stderrBytes: count("Bytes it has written to standard error."),
      stdout: Type.Optional(text("Standard output as text; not in lists and streams.")),
      stderr: Type.Optional(text("Standard error as text; not in lists and streams.")),
      truncated: Type.Optional(Type.Boolean({ description: "True if it has written more than the response has." })),
    },
    { description: "A process that was started in an instance." },
  ),
  InstanceFile: Type.Object(
    {
      ...pathSchemas,
      type: stringEnum(["file", "directory", "symlink", "other"], {
        description: "What it is; a device, a pipe or a socket is `other`.",
      }),
      sizeBytes: count("Bytes of a file or of a link's target; 0 for folders."),
      mode: Type.String({ pattern: "^[0-7]{4}$", description: "Permissions in octal digits." }),
      uid: count("Owner, as the container has it."),
      gid: count("Group, as the container has it."),
      modifiedAt: time("When its content last changed."),
      target: Type.Optional(text("What a link points at.")),
      etag: Type.Optional(text("ETag of a file: another one if its content or its permissions have changed.")),
      unpacked: Type.Optional(
        Type.Object(
          {
            files: count("Files."),
            folders: count("Folders that it names."),
            links: count("Symbolic and hard links."),
            bytes: count("Bytes of all files."),
          },
          { description: "What an archive held; only in the answer to its upload." },
        ),
      ),
    },
    { description: "A file, folder or link in an instance, now." },
  ),
};
