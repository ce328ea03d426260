import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import { HttpError } from "../../http/http-error.ts";
import { type PathRule, queryFlag, queryText } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { readUpload } from "../../http/upload.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import { doneSchema } from "../openapi/schemas.ts";
import { limitQuery, limitSchema } from "../pages.ts";
import { encodePath, pathAtEnd, pathSchema, pathText, queryPath } from "../snapshots/saved-paths.ts";
import type { InsidePlace } from "./call-inside.ts";
import { entrySchema, fileOf, shownFile } from "./file-entry.ts";
import { sendArchive } from "./folder-archive.ts";
import type { UnpackFolder } from "./folder-unpack.ts";
import { watchFolder } from "./folder-watch.ts";
import { podAnswer, podLines } from "./pod-answer.ts";
import { sendFile } from "./send-file.ts";

const DEFAULT_LIMIT = 500;
const MAX_DEPTH = 64;
/** The pod's disk is the limit. */
const MAX_UPLOAD_BYTES = 2 ** 40;

const modeRule: PathRule = {
  accepts: (value) => /^[0-7]{3,4}$/.test(value),
  says: "a mode is three or four octal digits, such as 0644",
};
const archiveRule: PathRule = { accepts: (value) => value === "tar.gz", says: "must be tar.gz" };
const modeSchema = (description: string): OpenApiSchema => ({ type: "string", pattern: "^[0-7]{3,4}$", description });
const depthRule: PathRule = {
  accepts: (value) => /^\d{1,2}$/.test(value) && Number(value) <= MAX_DEPTH,
  says: `a depth is a whole number from 0 to ${MAX_DEPTH}`,
};

const endOfPage = v.object({ isCut: v.boolean() });

/** The routes of the files in instances. */
export function fileRoutes(
  { base, access, query, errors, find }: InsidePlace,
  { clock, unpackFolder }: { clock: Clock; unpackFolder: UnpackFolder },
): ApiRoute[] {
  const all = `${base}/files`;
  const one = `${all}/:path+`;
  return [
    {
      method: "GET",
      path: all,
      access,
      summary: "List files in an instance",
      description:
        "What is in a folder, by name, each folder before what is in it. Links are shown and not followed. `watch=true` streams what changes in it instead.",
      query: {
        ...query,
        folder: pathSchema("The folder's path without the slash at its start; by default the root."),
        depth: {
          ...{ type: "integer", minimum: 0, maximum: MAX_DEPTH, default: 1 },
          description: "How many folders deep. 0 shows only what the path itself names, which need not be a folder.",
        },
        limit: limitSchema("Maximum number of entries.", { default: DEFAULT_LIMIT }),
        after: pathSchema("The next page, as x-tenancy-next names it."),
        watch: flagSchema(
          "Whether to stream what changes in the folder, as server-sent events or lines of JSON, by `Accept`. Without `limit` and `after`, and with a `depth` of at least 1.",
        ),
      },
      answer: ["InstanceFile"],
      streams: true,
      mayTell: ["x-tenancy-next"],
      errors: [404, 409, 410, 503, 504, ...errors],
      async handle(request, context) {
        const folder = queryPath(request, "folder");
        if (folder !== "") request.audit?.about({ path: pathText(folder) });
        const depth = Number(queryText(request, "depth", depthRule) ?? 1);
        const limit = limitQuery(request) ?? DEFAULT_LIMIT;
        const after = queryPath(request, "after");
        const isWatch = queryFlag(request, "watch");
        if (isWatch && (depth === 0 || after !== "" || request.query.limit !== undefined))
          throw new HttpError(400, "query: ask for one thing: a watch has no limit, no after and no depth of 0");
        const inside = await find(request, context);
        if (isWatch) return await watchFolder(request, { folder, depth }, { inside, clock });
        const path = `/${folder}`;
        const failure = { path: pathText(path) };
        if (depth === 0) return jsonResponse([fileOf(await inside.ask("stat", { path }, { failure }))]);
        const { data } = await inside.open("list", { path, depth, limit, after }, { failure });
        const lines = await podLines(data);
        const { isCut } = podAnswer(endOfPage, lines.pop());
        const found = lines.map((line) => podAnswer(entrySchema, line));
        const last = found.at(-1)?.path ?? "";
        const below = folder === "" ? "" : `${folder}/`;
        return jsonResponse(
          found.map((entry) => shownFile({ ...entry, path: `/${below}${entry.path}` })),
          { headers: isCut ? { "x-tenancy-next": encodePath(last) } : {} },
        );
      },
    },
    {
      method: "GET",
      path: one,
      access,
      summary: "Read a file in an instance",
      description:
        "As the workload's user. Links are followed. 409 for folders, devices, pipes and sockets. `archive=tar.gz` sends a folder.",
      query: {
        ...query,
        archive: {
          ...{ type: "string", enum: ["tar.gz"] },
          description:
            "Sends what is in a folder, packed, with paths below the folder. Links stay links; devices, pipes and sockets are left out. The connection is closed before the last byte if something cannot be read any more.",
        },
      },
      answer: "application/octet-stream",
      alsoAnswers: "application/gzip",
      takes: ["if-none-match", "range", "if-range"],
      mayTell: ["etag"],
      errors: [404, 409, 410, 416, 503, 504, ...errors],
      async handle(request, context) {
        const path = pathAtEnd(request);
        const isArchive = queryText(request, "archive", archiveRule) !== undefined;
        const inside = await find(request, context);
        if (isArchive) return await sendArchive(path, inside);
        return await sendFile(request, inside, { path: `/${path}`, shownPath: pathText(`/${path}`) });
      },
    },
    {
      method: "PUT",
      path: one,
      access,
      summary: "Write a file in an instance",
      description:
        "As the workload's user. The file is there as a whole or not at all; missing folders are made. With `If-None-Match: *` 409 if there is a file. A link is followed. `unpack=true` unpacks an archive into a folder.",
      query: {
        ...query,
        mode: modeSchema("Its permissions; by default those of the file that it replaces, or 0644."),
        unpack: flagSchema(
          "Whether the body is a tar or tar.gz, detected by its first bytes, for the folder of this path. Files in it are replaced, folders are merged, and nothing changes unless all of the archive is right. Owners, setuid and setgid are ignored; devices, pipes, `..` and absolute paths are refused.",
        ),
      },
      rawBody: ["application/octet-stream", "application/x-tar", "application/gzip"],
      takes: ["if-none-match"],
      answer: "InstanceFile",
      errors: [404, 408, 409, 410, 413, 503, 504, 507, ...errors],
      async handle(request, context) {
        const path = pathAtEnd(request);
        const mode = queryText(request, "mode", modeRule);
        const isNew = isNewOnly(request);
        const isArchive = queryFlag(request, "unpack");
        if (isArchive && mode !== undefined)
          throw new HttpError(400, "query: ask for one thing: an archive has the permissions of its files");
        const inside = await find(request, context);
        if (isArchive) return jsonResponse(await unpackFolder(request, { path, isNew }, inside));
        const upload = readUpload(request, { limit: MAX_UPLOAD_BYTES, clientGone: inside.clientGone });
        try {
          const parameters = { path: `/${path}`, isNew, ...(mode !== undefined && { mode }) };
          const failure = { path: pathText(`/${path}`), mayHaveActed: true };
          return jsonResponse(fileOf(await inside.ask("write", parameters, { input: upload.chunks, failure })));
        } finally {
          upload.close();
        }
      },
    },
    {
      method: "DELETE",
      path: one,
      access,
      summary: "Remove a file or folder in an instance",
      description: "Links are removed and not followed.",
      query: {
        ...query,
        recursive: flagSchema("Whether a folder is removed with what is in it; otherwise 409 unless it is empty."),
      },
      answer: doneSchema("removed"),
      errors: [404, 409, 410, 503, 504, ...errors],
      async handle(request, context) {
        const path = `/${pathAtEnd(request)}`;
        const recursive = queryFlag(request, "recursive");
        const inside = await find(request, context);
        await inside.ask("remove", { path, recursive }, { failure: { path: pathText(path), mayHaveActed: true } });
        return jsonResponse({ status: "removed" });
      },
    },
    {
      method: "POST",
      path: one,
      access,
      summary: "Make a folder, move a file or folder, or set its permissions",
      description:
        "`mkdir=true` makes the folder and those above it, with `mode` for the last one if it is new. `move` gives it another path; 409 if there is something, unless `replace=true`. `mode` alone sets the permissions.",
      query: {
        ...query,
        mkdir: flagSchema("Whether to make a folder."),
        move: pathSchema("The new path, without the slash at its start. Folders above it are made."),
        replace: flagSchema("Whether a move may replace a file, or an empty folder by a folder."),
        mode: modeSchema("The permissions."),
      },
      answer: "InstanceFile",
      errors: [404, 409, 410, 503, 504, 507, ...errors],
      async handle(request, context) {
        const path = `/${pathAtEnd(request)}`;
        const change = changeOf(request);
        const inside = await find(request, context);
        const failure = { path: pathText(path), mayHaveActed: true };
        return jsonResponse(fileOf(await inside.ask(change.call, { path, ...change.parameters }, { failure })));
      },
    },
  ];
}

/** What a POST asks for. @throws HttpError 400 unless it is one thing */
function changeOf(request: RoutedRequest): { call: string; parameters: object } {
  const mkdir = queryFlag(request, "mkdir");
  const to = queryPath(request, "move");
  if (to !== "") request.audit?.about({ toPath: pathText(to) });
  const replace = queryFlag(request, "replace");
  const mode = queryText(request, "mode", modeRule);
  const withMode = mode === undefined ? {} : { mode };
  if (mkdir && to === "" && !replace) return { call: "mkdir", parameters: withMode };
  if (to !== "" && !mkdir && mode === undefined) return { call: "move", parameters: { to: `/${to}`, replace } };
  if (mode !== undefined && to === "" && !mkdir && !replace) return { call: "mode", parameters: withMode };
  throw new HttpError(400, "query: ask for one thing: mkdir=true, move=NEW/PATH, or mode=0644");
}

/** Whether the request has `If-None-Match: *`. @throws HttpError 400 for another value, which a write cannot have */
function isNewOnly({ headers }: Request): boolean {
  const value = headers.get("if-none-match")?.trim();
  if (value !== undefined && value !== "*") throw new HttpError(400, 'if-none-match: must be "*" for a write');
  return value === "*";
}
