import * as v from "valibot";
import { createDeferred } from "../../../crds/waits.ts";
import { textOf } from "../../api/inside/byte-text.ts";
import { type CallData, ENDLESS_MS, type Inside } from "../../api/inside/call-inside.ts";
import { podAnswer, podEvents, podLines } from "../../api/inside/pod-answer.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Route, RoutedRequest } from "../../http/router.ts";
import { notImplemented } from "../connect/connect-error.ts";
import { type Call, type StreamServices, serverStreamRoute, unaryRoute } from "../connect/connect-route.ts";
import { path } from "./filesystem-calls.ts";
import { type FindSandbox, podPath, requireOwnUser, userOf } from "./sandbox.ts";

const SERVICE = "/filesystem.Filesystem";
/** As deep as the program in the pod watches. */
const MAX_DEPTH = 64;

const isAsked = v.nullish(v.boolean("must be true or false"), false);
const watchMessage = v.object({ path, recursive: isAsked, includeEntry: isAsked, allowNetworkMounts: isAsked });
type WatchMessage = v.InferOutput<typeof watchMessage>;
const watcherMessage = v.object({ watcherId: v.pipe(v.string("must be a string"), v.maxLength(64, "is too long")) });

const name = v.pipe(v.string(), v.minLength(1));
const eventSchema = v.variant("type", [
  v.object({ type: v.literal("created"), path: name, entry: v.optional(v.object({ type: v.string() })) }),
  v.object({ type: v.literal("changed"), path: name, onlyAttributes: v.optional(v.boolean()) }),
  v.object({ type: v.literal("removed"), path: name }),
  v.object({ type: v.literal("moved"), path: name, from: name }),
  v.object({ type: v.literal("overflow") }),
  v.object({ type: v.literal("ended"), reason: v.picklist(["folderGone", "tooManyFolders"]) }),
]);
/** Of older programs that run in a pod, `bytes` is missing: they forget what they have sent. */
const keptSchema = v.object({ isLost: v.boolean(), bytes: v.optional(v.number()) });
const idSchema = v.object({ id: v.string() });

/** The calls that watch folders. */
export function watchCalls(find: FindSandbox, services: StreamServices): Route[] {
  async function sandbox({ request, context, message }: Pick<Call<WatchMessage>, "request" | "context" | "message">) {
    request.audit?.about({ path: message.path });
    if (message.includeEntry) throw notImplemented("include_entry", "ask for an entry with Stat");
    if (message.allowNetworkMounts) throw notImplemented("allow_network_mounts", "a pod has no such mounts");
    const inside = await find(request, context);
    await requireOwnUser(userOf(request), inside);
    const parameters = { path: podPath(message.path), depth: message.recursive ? MAX_DEPTH : 1 };
    return { inside, parameters, failure: { path: message.path } };
  }

  function watcherRoute(
    call: string,
    handle: (
      id: string,
      opened: { request: RoutedRequest; inside: Awaited<ReturnType<FindSandbox>> },
    ) => Promise<object>,
  ): Route {
    return unaryRoute({
      path: `${SERVICE}/${call}`,
      act: "look",
      schema: watcherMessage,
      handle: async ({ message, request, context }) =>
        await handle(message.watcherId, { request, inside: await find(request, context) }),
    });
  }

  return [
    serverStreamRoute(
      {
        path: `${SERVICE}/WatchDir`,
        act: "look",
        schema: watchMessage,
        async handle(call) {
          const { inside, parameters, failure } = await sandbox(call);
          const limitMs = call.limitMs ?? ENDLESS_MS;
          const { data } = await inside.open("watch", parameters, { failure, limitMs });
          return { events: watchEvents(podEvents(data)), leave: () => data.return() };
        },
      },
      { ...services, keepAlive: { keepalive: {} } },
    ),
    unaryRoute({
      path: `${SERVICE}/CreateWatcher`,
      act: "look",
      schema: watchMessage,
      async handle(call) {
        const { inside, parameters, failure } = await sandbox(call);
        const { id } = podAnswer(idSchema, await inside.ask("keepWatch", parameters, { failure }));
        return { watcherId: id };
      },
    }),
    watcherRoute("GetWatcherEvents", async (id, { inside }) => {
      const { isLost, lines } = await takeKept(id, inside);
      if (isLost) throw missed();
      return { events: lines.flatMap(eventsOf) };
    }),
    watcherRoute("RemoveWatcher", async (id, { inside }) => {
      await inside.ask("endWatch", { id });
      return {};
    }),
  ];
}

/**
 * What has changed since the last call. The program in the pod forgets it at the end of the call's input, so it is lost
 * only if the client leaves while the response is on its way.
 */
async function takeKept(id: string, inside: Inside): Promise<{ isLost: boolean; lines: unknown[] }> {
  const taken = createDeferred<void>();
  const { answer, data } = await inside.open("watchEvents", { id }, { input: endedBy(taken.promise) });
  try {
    const { isLost, bytes } = podAnswer(keptSchema, answer);
    const lines = await podLines(firstBytes(data, bytes));
    if (inside.clientGone.aborted) throw new HttpError(499, "the client went away");
    taken.resolve();
    // Its end is not awaited: the client could leave until then.
    void data.next().then(
      () => data.return(),
      () => undefined,
    );
    return { isLost, lines };
  } catch (error) {
    await data.return();
    // The input of a call that was left is not sent any more.
    taken.resolve();
    throw error;
  }
}

// biome-ignore lint/correctness/useYield: only its end says something.
async function* endedBy(end: Promise<void>): AsyncGenerator<Uint8Array, void> {
  await end;
}

async function* firstBytes(data: CallData, bytes = Number.POSITIVE_INFINITY): AsyncGenerator<Uint8Array, void> {
  for (let left = bytes; left > 0; ) {
    const { done, value } = await data.next();
    if (done === true) return;
    left -= value.length;
    yield value;
  }
}

async function* watchEvents(lines: AsyncIterable<unknown>): AsyncGenerator<object, void> {
  yield { start: {} };
  for await (const line of lines) for (const filesystem of eventsOf(line)) yield { filesystem };
}

/**
 * The events of a change: a file that was made may have been written to, which is one change for the program in the
 * pod; a new name is a file that was made.
 *
 * @throws HttpError 409 once changes are missed or the folder is not watched any more
 */
function eventsOf(line: unknown): object[] {
  const change = podAnswer(eventSchema, line);
  const event = (path: string, type: string) => ({ name: textOf(path), type: `EVENT_TYPE_${type}` });
  switch (change.type) {
    case "created": {
      const created = event(change.path, "CREATE");
      return change.entry?.type === "file" ? [created, event(change.path, "WRITE")] : [created];
    }
    case "changed":
      return [event(change.path, change.onlyAttributes === true ? "CHMOD" : "WRITE")];
    case "removed":
      return [event(change.path, "REMOVE")];
    case "moved":
      return [event(change.from, "RENAME"), event(change.path, "CREATE")];
    case "overflow":
      throw missed();
    case "ended":
      throw change.reason === "folderGone"
        ? new HttpError(409, "the folder was removed or moved")
        : new HttpError(429, "the folder has more folders in it than can be watched: watch a part of it");
    default:
      return change satisfies never;
  }
}

function missed(): HttpError {
  return new HttpError(409, "changes were missed: list the folder, and watch it again");
}
