import { tenantUse } from "../../access/route-access.ts";
import { textOf } from "../../api/inside/byte-text.ts";
import type { Inside } from "../../api/inside/call-inside.ts";
import { entrySchema } from "../../api/inside/file-entry.ts";
import { podAnswer } from "../../api/inside/pod-answer.ts";
import { sendFile } from "../../api/inside/send-file.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../../http/router.ts";
import { nameOf } from "./entry.ts";
import { type FindSandbox, podPath, requireOwnUser } from "./sandbox.ts";
import { readFiles } from "./uploaded-files.ts";

const query = { path: {}, username: {}, signature: {}, signature_expiration: {} };

/** The routes of files. */
export function fileRoutes(find: FindSandbox): Route[] {
  /** Finds the sandbox of a request for the user that it names. */
  async function sandbox(request: RoutedRequest, context: RequestContext): Promise<Inside> {
    request.audit?.about({ path: textParameter(request, "path") });
    const inside = await find(request, context);
    await requireOwnUser(textParameter(request, "username"), inside);
    return inside;
  }

  return [
    {
      method: "GET",
      path: "/files",
      access: tenantUse,
      query,
      async handle(request, context) {
        const path = textParameter(request, "path") ?? "";
        const inside = await sandbox(request, context);
        return await sendFile(request, inside, { path: podPath(path), shownPath: path });
      },
    },
    {
      method: "POST",
      path: "/files",
      access: tenantUse,
      query,
      async handle(request, context) {
        const path = textParameter(request, "path");
        const inside = await sandbox(request, context);
        const written = new Map<string, object>();
        for await (const file of readFiles(request, { path, clientGone: inside.clientGone })) {
          const to = podPath(file.path);
          if (written.has(to))
            throw new HttpError(
              400,
              `${file.path}: only one file of a request can have this path; the first one was written`,
            );
          const failure = { path: file.path, mayHaveActed: true };
          const answer = await inside.ask("write", { path: to }, { input: file.content, failure });
          const { path: at } = podAnswer(entrySchema, answer);
          written.set(to, { path: textOf(at), name: nameOf(at), type: "file" });
        }
        return jsonResponse([...written.values()]);
      },
    },
    {
      method: "POST",
      path: "/files/compose",
      access: tenantUse,
      handle() {
        throw new HttpError(501, "/files/compose is not implemented by tenancy: write the file as a whole", {
          expected: true,
        });
      },
    },
  ];
}

/** @throws HttpError 400 for one that is there twice */
function textParameter({ query }: RoutedRequest, name: string): string | undefined {
  const value = query[name];
  if (value === undefined || typeof value === "string") return value;
  throw new HttpError(400, `query.${name}: is there more than once`);
}
