import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Inside } from "../../api/inside/call-inside.ts";
import { podAnswer, podLines } from "../../api/inside/pod-answer.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Route } from "../../http/router.ts";
import { insideCodeOf } from "../connect/connect-error.ts";
import { type Call, unaryRoute } from "../connect/connect-route.ts";
import { detailedEntry, entryInfo } from "./entry.ts";
import { createPacedAnswers } from "./paced-answers.ts";
import { type FindSandbox, podPath, requireOwnUser, userOf } from "./sandbox.ts";

const SERVICE = "/filesystem.Filesystem";
const PAGE = 1000;
/** More would make a message of many megabytes. */
const MAX_ENTRIES = 20_000;
const MAX_LIST_BYTES = 8 * 1024 * 1024;

export const path = v.pipe(
  v.nullish(v.string("must be a string"), ""),
  v.check((text) => !text.includes("\0"), "must not contain a NUL character"),
);
const pathMessage = v.object({ path });
const moveMessage = v.object({ source: path, destination: path });
const listMessage = v.object({
  path,
  depth: v.pipe(
    v.nullish(v.number("must be a number"), 1),
    v.integer("must be a whole number"),
    v.minValue(0, "must be at least 0"),
    v.maxValue(64, "must be at most 64"),
    v.transform((depth) => Math.max(1, depth)),
  ),
});
const listAnswer = v.object({ root: v.string() });
const endOfPage = v.object({ isCut: v.boolean() });

/** The unary calls of files. */
export function filesystemCalls(find: FindSandbox, services: { readonly clock: Clock }): Route[] {
  const answers = createPacedAnswers(services);

  /** Finds the sandbox of a call for the user that it names. */
  async function sandbox({ request, context }: Pick<Call<unknown>, "request" | "context">, named: string) {
    request.audit?.about({ path: named });
    const inside = await find(request, context);
    await requireOwnUser(userOf(request), inside);
    return inside;
  }

  return [
    unaryRoute({
      path: `${SERVICE}/Stat`,
      act: "look",
      schema: pathMessage,
      async handle({ message: { path }, ...call }) {
        const inside = await sandbox(call, path);
        const answer = await inside.ask("stat", { path: podPath(path), details: true }, { failure: { path } });
        return { entry: entryInfo(podAnswer(detailedEntry, answer)) };
      },
    }),
    unaryRoute({
      path: `${SERVICE}/MakeDir`,
      schema: pathMessage,
      async handle({ message: { path }, ...call }) {
        const inside = await sandbox(call, path);
        const failure = { path, mayHaveActed: true };
        const answer = await inside.ask("mkdir", { path: podPath(path), isNew: true, details: true }, { failure });
        return { entry: entryInfo(podAnswer(detailedEntry, answer)) };
      },
    }),
    unaryRoute({
      path: `${SERVICE}/Move`,
      schema: moveMessage,
      async handle({ message: { source, destination }, ...call }) {
        const inside = await sandbox(call, source);
        call.request.audit?.about({ toPath: destination });
        const move = { path: podPath(source), to: podPath(destination), replace: true, details: true };
        const answer = await inside.ask("move", move, { failure: { path: source, mayHaveActed: true } });
        return { entry: entryInfo(podAnswer(detailedEntry, answer)) };
      },
    }),
    unaryRoute({
      path: `${SERVICE}/ListDir`,
      act: "look",
      schema: listMessage,
      async handle({ message: { path, depth }, ...call }) {
        const inside = await sandbox(call, path);
        const { tenantId, clientGone } = inside;
        return await answers.answer({ tenantId, clientGone, make: () => entriesIn(path, depth, inside) });
      },
    }),
    unaryRoute({
      path: `${SERVICE}/Remove`,
      schema: pathMessage,
      async handle({ message: { path }, ...call }) {
        const inside = await sandbox(call, path);
        const failure = { path, mayHaveActed: true };
        try {
          await inside.ask("remove", { path: podPath(path), recursive: true }, { failure });
        } catch (error) {
          // The envd of E2B takes what is not there as removed.
          if (!(error instanceof HttpError && insideCodeOf(error) === "notFound")) throw error;
        }
        return {};
      },
    }),
  ];
}

/** The message with all entries in a folder. @throws HttpError 413 if there are too many */
async function entriesIn(path: string, depth: number, inside: Inside): Promise<Buffer> {
  const pages: Buffer[] = [];
  let count = 0;
  let bytes = 0;
  for (let after = ""; ; ) {
    const call = { path: podPath(path), depth, limit: PAGE, after, details: true };
    const { answer, data } = await inside.open("list", call, { failure: { path } });
    const { root } = podAnswer(listAnswer, answer);
    const below = root === "/" ? "" : root;
    const lines = await podLines(data);
    const { isCut } = podAnswer(endOfPage, lines.pop());
    const found = lines.map((line) => podAnswer(detailedEntry, line));
    const shown = found.map((entry) => JSON.stringify(entryInfo(entry, `${below}/${entry.path}`)));
    if (shown.length > 0) pages.push(Buffer.from(`${count === 0 ? "" : ","}${shown.join(",")}`));
    count += found.length;
    bytes += pages.at(-1)?.length ?? 0;
    // A tenant's own program could go on without an end.
    const isTooMuch = isCut && (found.length < PAGE || count >= MAX_ENTRIES);
    if (isTooMuch || bytes > MAX_LIST_BYTES)
      throw new HttpError(
        413,
        `${path}: has more than ${MAX_ENTRIES} entries, or ${MAX_LIST_BYTES} bytes of them: list its folders one by one`,
      );
    if (!isCut) return Buffer.concat([Buffer.from('{"entries":['), ...pages, Buffer.from("]}")]);
    after = found.at(-1)?.path ?? "";
  }
}
