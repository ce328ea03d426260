import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { HttpError } from "../../http/http-error.ts";
import { instanceNameRule, pathParam } from "../../http/parameters.ts";
import type { RequestContext, RoutedRequest } from "../../http/router.ts";
import type { CallOptions, Channel } from "../../inside/channel.ts";
import { isActiveWith, requireGiven } from "../instances/given.ts";
import { findInstance, type InstanceServices } from "../instances/instance.ts";
import { type InsideFailure, insideError } from "./inside-error.ts";

/** The instance that a request names, whose claim is Active. */
export interface Inside {
  readonly name: string;
  /** Aborted when the client disconnects. */
  readonly clientGone: AbortSignal;
  /** Makes a call of the program in the pod, and returns its answer. The pod counts as in use until then. */
  ask(call: string, parameters: object, options?: AskOptions): Promise<unknown>;
  /** As {@link ask}, for an answer with data. The pod counts as in use until that was read, or is left. */
  open(call: string, parameters: object, options?: AskOptions): Promise<OpenedCall>;
}

interface AskOptions extends Pick<CallOptions, "input"> {
  /** What the errors of this call are about. @default the instance */
  readonly failure?: InsideFailure;
}

interface OpenedCall {
  readonly answer: unknown;
  /** Read it to its end, or return it. */
  readonly data: AsyncGenerator<Uint8Array, void>;
}

/** Finds the instance of a request for calls of the program in its pod. */
export type FindInside = (request: RoutedRequest, context: RequestContext) => Promise<Inside>;

/**
 * Makes the calls of programs in pods. Only a pod whose claim is Active is called: in a warm one the effects would
 * reach the next tenant, and of one that is being released the files are being saved.
 */
export function createFindInside(services: InstanceServices): FindInside {
  const { channels, activity, cluster } = services;
  /** Channels that were opened to the pod with the right uid. */
  const proven = new WeakSet<Channel>();

  async function channelTo(pod: Pod, signal: AbortSignal): Promise<Channel> {
    const { name, uid = "" } = pod.metadata;
    const channel = await channels.channelTo({ name, uid }, signal);
    if (proven.has(channel)) return channel;
    // An exec names no uid, and another pod of this name may have come before it.
    const present = await cluster(pods).named(name).find();
    if (present?.metadata.uid !== uid) {
      channel.close();
      throw new HttpError(410, `instance "${name}" was replaced by another pod of its name; try again`);
    }
    proven.add(channel);
    return channel;
  }

  /** @throws HttpError 404 for no instance, 409 unless its claim is Active with it */
  return async function findInside(request, { clientGone = request.signal, mayBeSilent }) {
    const name = pathParam(request, "id", instanceNameRule);
    const pod = await requireGiven(await findInstance(name, services), services, isActiveWith);
    mayBeSilent?.();

    async function open(call: string, parameters: object, { input, failure = {} }: AskOptions = {}) {
      const ended = createDeferred<void>();
      void activity.during(name, () => ended.promise);
      try {
        const channel = await channelTo(pod, clientGone);
        const { answer, data } = await channel.call(call, parameters, { input, signal: clientGone });
        return { answer, data: read(data, ended.resolve, failure) };
      } catch (error) {
        ended.resolve();
        throw clientGone.aborted ? gone() : insideError(error, { name, ...failure });
      }
    }

    async function* read(
      data: AsyncIterable<Uint8Array>,
      onEnd: () => void,
      failure: InsideFailure,
    ): AsyncGenerator<Uint8Array, void> {
      try {
        yield* data;
      } catch (error) {
        throw clientGone.aborted ? gone() : insideError(error, { name, ...failure });
      } finally {
        onEnd();
      }
    }

    return {
      name,
      clientGone,
      open,
      async ask(call, parameters, options) {
        const { answer, data } = await open(call, parameters, options);
        for await (const _ of data) {
          // It has none. Its end is that of the call.
        }
        return answer;
      },
    };
  };
}

function gone(): HttpError {
  return new HttpError(499, "the client went away");
}
