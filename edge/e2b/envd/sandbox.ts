import * as v from "valibot";
import { quote } from "../../../crds/quote.ts";
import { bytesOf } from "../../api/inside/byte-text.ts";
import type { Inside, InsidePlace } from "../../api/inside/call-inside.ts";
import { podAnswer } from "../../api/inside/pod-answer.ts";
import { HttpError } from "../../http/http-error.ts";
import type { RequestContext, RoutedRequest } from "../../http/router.ts";
import { readSandboxId } from "../sandbox-id.ts";

export const ID_HEADER = "e2b-sandbox-id";
/** Finds the instance of a request's sandbox. @throws HttpError 502 if the sandbox is not running */
export type FindSandbox = (request: RoutedRequest, context: RequestContext) => Promise<Inside>;

/** Names the sandbox of a request as the routes of instances do; returns undefined for a text that is no id. */
export function nameSandbox(request: RoutedRequest): boolean {
  const sandbox = readSandboxId(request.headers.get(ID_HEADER) ?? "");
  const { tenantId: id, workloadRef: workload } = sandbox ?? {};
  const params = sandbox === undefined ? {} : { id, workload };
  Object.assign(request, { params });
  return sandbox !== undefined;
}

/**
 * @param place the address of instances by their tenant and workload
 */
export function createFindSandbox(place: InsidePlace): FindSandbox {
  return async (request, context) => {
    try {
      return await place.find(request, context);
    } catch (error) {
      if (error instanceof HttpError && [404, 409, 410].includes(error.status)) throw notRunning(request, error);
      throw error;
    }
  };
}

/** E2B's SDKs for Python look for "was not found" in it. */
export function notRunning({ headers }: Request, cause?: unknown): HttpError {
  const id = quote(headers.get(ID_HEADER) ?? "");
  return new HttpError(502, `the sandbox ${id} was not found: it is not running`, { cause, expected: true });
}

const encoded = /^Basic +([A-Za-z0-9+/]+={0,2})$/i;

/** The user of a call; undefined for the workload's. */
export function userOf({ headers }: Request): string | undefined {
  const [, text] = encoded.exec(headers.get("authorization") ?? "") ?? [];
  return text === undefined ? undefined : Buffer.from(text, "base64").toString("utf8").replace(/:.*$/s, "");
}

const ownUser = v.object({ uid: v.number(), name: v.string(), home: v.string() });

/**
 * Checks that a call is for the workload's user, whom E2B's SDKs call `user`: nothing in a pod runs as another one.
 *
 * @throws HttpError 400 for another user
 */
export async function requireOwnUser(user: string | undefined, inside: Inside): Promise<void> {
  if (user === undefined || user === "" || user === "user") return;
  const { uid, name } = podAnswer(ownUser, await inside.ask("user", {}));
  if (user === name || (user === "root" && uid === 0)) return;
  throw new HttpError(
    400,
    `user: all calls are made as the workload's user, which is ${quote(name)}: leave the user out, got ${quote(user)}`,
  );
}

/**
 * A path as the program in the pod takes it: bytes, one per character, from the root or from the user's home.
 *
 * @throws HttpError 400 for what is no path
 */
export function podPath(text: string): string {
  if (text.includes("\0")) throw new HttpError(400, "path: must not contain a NUL character");
  if (text.startsWith("/") || text.startsWith("~/")) return bytesOf(text);
  if (text === "" || text === "~") return "~";
  if (text.startsWith("~")) throw new HttpError(400, "path: cannot find the home of another user");
  return bytesOf(`~/${text}`);
}
