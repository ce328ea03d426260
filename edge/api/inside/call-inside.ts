import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, canonicalClaim, hasKey } from "../../../crds/claims/claim-key.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import { createDeferred, linkSignals, startDeadline } from "../../../crds/waits.ts";
import { instanceUse, type RouteAccess, tenantUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { instanceNameRule, pathParam, queryFlag, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import type { RequestContext, RoutedRequest } from "../../http/router.ts";
import type { CallOptions, Channel } from "../../inside/channel.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import type { ClaimServices } from "../claims/claim-services.ts";
import { claimTenant } from "../claims/claim-tenant.ts";
import { findClaims } from "../claims/release-tenant.ts";
import { isActiveWith, requireGiven } from "../instances/given.ts";
import { findInstance, type InstanceServices } from "../instances/instance.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import { type InsideFailure, insideError } from "./inside-error.ts";
import { bounded } from "./pod-answer.ts";

/** The instance that a request names, whose claim is Active. */
export interface Inside {
  /** Aborted when the client disconnects. */
  readonly clientGone: AbortSignal;
  /** Whose instance it is. */
  readonly tenantId: string;
  /** Makes a call of the program in the pod, and returns its answer. The pod counts as in use until then. */
  ask(call: string, parameters: object, options?: AskOptions): Promise<unknown>;
  /** As {@link ask}, for an answer with data. The pod counts as in use until that was read, or is left. */
  open(call: string, parameters: object, options?: AskOptions): Promise<OpenedCall>;
}

interface AskOptions extends Pick<CallOptions, "input"> {
  /** What the errors of this call are about. @default the instance */
  readonly failure?: InsideFailure;
  /** Milliseconds until the call is over, or fails. @default 15 minutes */
  readonly limitMs?: number;
  /** Whether the pod counts as in use. @default true */
  readonly isUse?: boolean;
}

/** For what its client follows. */
export const ENDLESS_MS = 7 * 24 * 60 * 60_000;
/** As long as an upload may take. */
const LIMIT_MS = 15 * 60_000;

interface OpenedCall {
  readonly answer: unknown;
  /** Read it to its end, or return it. */
  readonly data: CallData;
}

/** What follows an answer. Unlike a generator it can be returned before, and while, it is read. */
export interface CallData extends AsyncIterableIterator<Uint8Array> {
  return(): Promise<IteratorResult<Uint8Array>>;
}

/** An address of instances, and how it leads to one. */
export interface InsidePlace {
  /** The pattern of the routes before what they are about. */
  readonly base: string;
  readonly access: RouteAccess;
  /** The query parameters that `find` reads, beside the route's own. */
  readonly query: Readonly<Record<string, OpenApiSchema>>;
  /** The error statuses of `find` beside those of a call. */
  readonly errors: NonNullable<ApiRoute["errors"]>;
  /**
   * Finds the instance of a request for calls of the program in its pod.
   *
   * @throws HttpError 404 for no instance, 409 unless its claim is Active with it
   */
  readonly find: (request: RoutedRequest, context: RequestContext) => Promise<Inside>;
}

/**
 * The addresses of instances: by their name, and by their tenant and workload. Only a pod whose claim is Active is
 * called: in a warm one the effects would reach the next tenant, and of one that is being released the files are being
 * saved.
 */
export function createInsidePlaces(services: InstanceServices & ClaimServices): InsidePlace[] {
  const { channels, channelsAhead, activity, cluster, clock } = services;

  async function channelTo({ metadata }: Pod, signal: AbortSignal): Promise<Channel> {
    const { name, uid = "", labels } = metadata;
    const channel = await channels.channelTo({ name, uid }, signal);
    const workload = labels?.[label.workload];
    if (workload !== undefined) channelsAhead.used(workload, channel);
    return channel;
  }

  /** The name of the instance of a tenant's Active claim. @throws HttpError 404 without a claim, 409 until it is Active */
  async function instanceOf(key: ClaimKey): Promise<string> {
    const known = canonicalClaim(await findClaims(key, services));
    // The cache may be behind the claim call's answer.
    const claim = known?.status?.phase === "Active" ? known : known && (await cluster(claims).of(known).find());
    const whose = `tenant ${quote(key.tenantId)} has no claim on workload ${quote(key.workloadRef)}`;
    if (claim === undefined || !hasKey(claim, key))
      throw new HttpError(404, `${whose}; claim it first, or add ?wake=true`);
    const { phase = "Pending", instanceId } = claim.status ?? {};
    if (phase === "Active" && instanceId !== undefined) return instanceId;
    throw new HttpError(409, `${whose} that is Active: it is ${phase}; claim it first, or add ?wake=true`);
  }

  async function wake(
    { audit }: RoutedRequest,
    key: ClaimKey,
    { clientGone, span }: Pick<RequestContext, "span"> & { readonly clientGone: AbortSignal },
  ): Promise<string> {
    const claim = { ...key, resume: true, joins: true };
    const { instanceId, source } = await claimTenant(claim, services, { clientGone: () => clientGone, span });
    audit?.from(source);
    return instanceId ?? (await instanceOf(key));
  }

  /** @param key of the claim that must have the instance. @default any claim's */
  async function inside(name: string, { clientGone, mayBeSilent }: Calling, key?: ClaimKey): Promise<Inside> {
    const isGiven = (of: Pod, claim: Claim) => isActiveWith(of, claim) && (key === undefined || hasKey(claim, key));
    const pod = await requireGiven(await findInstance(name, services), services, isGiven);
    mayBeSilent?.();

    /** The error for a caller: a connection that ends with the claim is no fault. */
    async function told(error: unknown, { failure, late }: Told): Promise<unknown> {
      if (clientGone.aborted) return gone();
      if (late.aborted) return tooLate(name);
      if (error instanceof NetworkError || error instanceof ExecError) {
        const now = await requireGiven(pod, services, isGiven).catch((lost: unknown) => lost);
        if (now instanceof HttpError) return new HttpError(410, `instance ${quote(name)} has gone: ${now.message}`);
      }
      return insideError(error, { name, ...failure });
    }

    async function open(
      call: string,
      parameters: object,
      { input, failure = {}, limitMs = LIMIT_MS, isUse = true }: AskOptions = {},
    ): Promise<OpenedCall> {
      const ended = createDeferred<void>();
      const deadline = startDeadline(limitMs, clock);
      const stop = linkSignals(clientGone, deadline.signal);
      if (isUse) void activity.during(name, () => ended.promise);
      const onEnd = (): void => {
        ended.resolve();
        deadline.close();
        stop.close();
      };
      const about: Told = { failure: { ...failure, mayHaveActed: false }, late: deadline.signal };
      try {
        const channel = await channelTo(pod, stop.signal);
        // Before this nothing was sent, whatever the error of an exec says.
        about.failure = failure;
        const { answer, data } = await channel.call(call, parameters, { input, signal: stop.signal, onEnd });
        return { answer, data: withErrors(data, (error) => told(error, about)) };
      } catch (error) {
        onEnd();
        throw await told(error, about);
      }
    }

    return {
      clientGone,
      tenantId: pod.metadata.labels?.[label.tenant] ?? "",
      open,
      async ask(call, parameters, options) {
        const { answer, data } = await open(call, parameters, options);
        // It has none. Its end is that of the call.
        await bounded(data, 0);
        return answer;
      },
    };
  }

  return [
    {
      base: "/api/v1/instances/:id",
      access: instanceUse,
      query: {},
      errors: [],
      async find(request, context) {
        const name = pathParam(request, "id", instanceNameRule);
        return await inside(name, { ...context, clientGone: context.clientGone ?? request.signal });
      },
    },
    {
      base: "/api/v1/tenants/:id/instances/:workload",
      access: tenantUse,
      query: {
        wake: flagSchema("Whether to claim the workload, with its files, if that is not so, and to wait for it."),
      },
      errors: [429],
      async find(request, context) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const workloadRef = pathParam(request, "workload", workloadNameRule);
        const isWaking = queryFlag(request, "wake");
        const clientGone = context.clientGone ?? request.signal;
        const key = { tenantId, workloadRef };
        const name = isWaking ? await wake(request, key, { ...context, clientGone }) : await instanceOf(key);
        request.audit?.about({ instance: name });
        return await inside(name, { ...context, clientGone }, key);
      },
    },
  ];
}

/** The data with errors for a caller. */
function withErrors(data: AsyncIterable<Uint8Array>, told: (error: unknown) => Promise<unknown>): CallData {
  const iterator = data[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      try {
        return await iterator.next();
      } catch (error) {
        throw await told(error);
      }
    },
    async return() {
      await iterator.return?.();
      return { value: undefined, done: true };
    },
  };
}

interface Told {
  failure: InsideFailure;
  readonly late: AbortSignal;
}

type Calling = Pick<RequestContext, "mayBeSilent"> & { readonly clientGone: AbortSignal };

function tooLate(name: string): HttpError {
  return new HttpError(504, `instance ${quote(name)} has not answered in time; it may still go on`, { expected: true });
}

function gone(): HttpError {
  return new HttpError(499, "the client went away");
}
