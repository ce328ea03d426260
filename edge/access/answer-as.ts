import { type LinkedSignal, linkSignals, onAbort } from "../../crds/waits.ts";
import { HttpError } from "../http/http-error.ts";
import { isJson, jsonResponse } from "../http/response.ts";
import type { RequestContext } from "../http/router.ts";
import type { Actor } from "./actor.ts";
import type { RouteAccess } from "./route-access.ts";

/** Fields with texts of programs: Kubernetes puts the last output of a container that failed into its message. */
const TEXTS = new Set(["message", "waitsFor"]);
const HIDDEN = "not shown to a key of the role reader";

/**
 * Answers a request for as long as the key holds that makes it. At its end the handler sees a client that is gone, and
 * a streamed response is cut. A reader gets JSON about tenants' things without what their programs may have printed.
 *
 * @throws HttpError 401 if the key has ended and the handler has failed; as the handler does
 */
export async function answerAs<T extends Request>(
  actor: Actor,
  {
    request,
    context,
    access,
    onSent = () => undefined,
  }: {
    request: T;
    context: RequestContext;
    access: RouteAccess | undefined;
    /** Called with the number of bytes of the answer that were sent, unless it is JSON. */
    onSent?: (bytes: number) => void;
  },
  handle: (request: T, context: RequestContext) => Response | Promise<Response>,
): Promise<Response> {
  const { role, ended, mayClaim } = actor;
  const closed = actor.opens?.();
  /** Linked when it is asked for: an answer from memory asks for none. */
  let gone: LinkedSignal | undefined;
  const link = (): LinkedSignal => {
    gone ??= linkSignals(context.clientGone ?? request.signal, ended);
    return gone;
  };
  const close = (): void => {
    gone?.close();
    closed?.();
  };
  let response: Response;
  try {
    response = await handle(request, {
      ...context,
      get clientGone() {
        return link().signal;
      },
    });
  } catch (error) {
    close();
    throw ended.aborted ? new HttpError(401, "the key has ended", { cause: error }) : error;
  }
  if (!isJson(response.headers) && response.body !== null)
    return cutWhenGone(response, response.body, { signal: link().signal, close, onSent });
  close();
  const isClaiming = mayClaim === true && access?.claims === true;
  const hidesTexts = role === "reader" && !isClaiming && access?.whose !== undefined && isJson(response.headers);
  return hidesTexts ? await withoutTexts(response) : response;
}

async function withoutTexts(response: Response): Promise<Response> {
  const body: unknown = JSON.parse(await response.text(), (name, value: unknown) =>
    TEXTS.has(name) && typeof value === "string" ? HIDDEN : value,
  );
  const { "content-length": _, ...headers } = Object.fromEntries(response.headers);
  return jsonResponse(body, { status: response.status, headers });
}

function cutWhenGone(
  response: Response,
  body: ReadableStream<Uint8Array>,
  { signal, close, onSent }: { signal: AbortSignal; close: () => void; onSent: (bytes: number) => void },
): Response {
  const { status, headers } = response;
  const reader = body.getReader();
  const cut = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        function leave(): void {
          close();
          controller.error(signal.reason);
          void reader.cancel(signal.reason).catch(() => undefined);
        }
        if (signal.aborted) leave();
        else onAbort(signal, leave);
      },
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (signal.aborted) return;
          if (!done) {
            onSent(value.byteLength);
            return controller.enqueue(value);
          }
          controller.close();
        } catch (error) {
          if (signal.aborted) return;
          controller.error(error);
        }
        close();
      },
      async cancel(reason) {
        close();
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(cut, { status, headers });
}
