import { Type } from "@sinclair/typebox";
import { stringEnum } from "../../../crds/schema/schema.ts";

/** How the API names a file. */
export const pathSchemas = {
  path: Type.String({ description: "Path in the pod without the leading slash." }),
  encodedPath: Type.Optional(
    Type.String({
      description:
        "The path with percent-encoded bytes; only if the path is not UTF-8 or has a percent sign. Parameters take it in place of `path`.",
    }),
  ),
};

const entry = {
  type: stringEnum(["file", "directory", "symlink", "hardlink"], {
    description: "What it is; each name of a file after the first is a `hardlink`.",
  }),
  sizeBytes: Type.Integer({ minimum: 0, description: "Bytes of a file; 0 for others." }),
  mode: Type.Optional(
    Type.String({
      pattern: "^[0-7]{4}$",
      description: "Permissions in octal digits; absent for a folder that the archive has no entry of.",
    }),
  ),
  uid: Type.Optional(Type.Integer({ minimum: 0, description: "Owner, as the container has it." })),
  gid: Type.Optional(Type.Integer({ minimum: 0, description: "Group, as the container has it." })),
  modifiedAt: Type.Optional(Type.String({ format: "date-time", description: "When its content last changed." })),
  sha256: Type.Optional(Type.String({ description: "SHA-256 of a file's content in hexadecimal digits." })),
  target: Type.Optional(Type.String({ description: "What a link points at." })),
};

export const savedFileSchemas = {
  SavedFile: Type.Object(
    { ...pathSchemas, ...entry },
    { description: "A file, folder or link in a version of a snapshot." },
  ),
  SavedChange: Type.Object(
    {
      ...pathSchemas,
      change: stringEnum(["added", "changed", "removed"], { description: "What happened to it." }),
      before: Type.Optional(Type.Object(entry, { description: "As it was; absent if it was added." })),
      after: Type.Optional(Type.Object(entry, { description: "As it became; absent if it was removed." })),
    },
    { description: "A difference between two versions of a snapshot." },
  ),
};
