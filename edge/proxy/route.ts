import type { Clock } from "../../crds/client/clock.ts";
import { onAbort, orAborted } from "../../crds/waits.ts";
import type { AdmitActor } from "../access/key-rates.ts";
import type { TenantRates } from "../access/tenant-rates.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { createCounts } from "../counts.ts";
import { HttpError } from "../http/http-error.ts";
import { type Access, accessedOf } from "./access.ts";
import type { IncomingRequest, Route } from "./client-connection.ts";
import { type Address, readAddress } from "./entry/address.ts";
import { type Admission, createAdmissions } from "./entry/admission.ts";
import { type Credentials, linkCookie } from "./entry/entry.ts";
import { createForwardChanges } from "./entry/forward-changes.ts";
import type { FrontDoor } from "./entry/front-door.ts";
import type { LinkTokens } from "./entry/link-token.ts";
import { createOpenByLink } from "./entry/open-by-link.ts";
import { ENVD_PORT } from "./entry/sandbox-address.ts";
import type { FindInstance, Wanted } from "./find-instance.ts";
import { AnswerError, type Forward, type Stop } from "./forward.ts";
import { errorAnswer, type LocalAnswer } from "./http/local-answer.ts";
import { type RequestHead, SAFE_METHODS } from "./http/message-head.ts";
import type { InstanceUse, InstanceUses } from "./instance-uses.ts";
import { type ApiAddress, createToApi } from "./to-api.ts";
import type { AwakePod } from "./wake/find-awake.ts";
import type { KnownTenants } from "./wake/known-tenants.ts";
import { showsPages } from "./wake/waiting-page.ts";

/** Does not exist, or must not be known to exist: the same response. */
export const NOT_FOUND = errorAnswer(404, "there is nothing here");
const TRY_AGAIN = [["Retry-After", "1"]] as const;
const STALE = errorAnswer(503, "the cache of the cluster is not current; try again shortly", TRY_AGAIN);
const KEYS_UNKNOWN = errorAnswer(503, "links cannot be verified yet; try again shortly", TRY_AGAIN);
const KEY_UNCHECKED = errorAnswer(503, "keys cannot be checked at the moment; try again shortly", TRY_AGAIN);
const MAY_BE_LOST = errorAnswer(503, "the instance is being released and may not save this; try again", TRY_AGAIN);
const TOO_MANY = errorAnswer(503, "too many requests to this instance at once; try again shortly", TRY_AGAIN);

/** Pods that a request may lose in a row before anything of it was sent. */
const MAX_LOST_PODS = 3;

/**
 * Makes the route of the front door: the instance of a request, whether it is admitted, and what the pod sees of it.
 *
 * Credentials are checked before any lookup, so that strangers cannot tell a missing instance from one that is closed
 * to them: both are {@link NOT_FOUND}, and cost no call.
 */
export function createRoute(options: {
  frontDoor: () => FrontDoor;
  namespace: string;
  cache: Pick<ClusterCache, "claims" | "workloads">;
  /** Whether the caches are current. */
  isFresh: () => boolean;
  /** Whether a host is served at all. */
  isKnownHost: (host: string) => boolean;
  readCredentials: (head: RequestHead, address: Address | undefined) => Credentials;
  tokens: Pick<LinkTokens, "sign" | "holds">;
  areKeysKnown: () => boolean;
  known: Pick<KnownTenants, "has" | "named" | "isListed" | "refresh">;
  findInstance: FindInstance;
  /** Undefined: requests to the daemon of a sandbox are refused. */
  api: ApiAddress | undefined;
  uses: InstanceUses;
  /** Concurrent requests and WebSockets of one tenant. */
  tenantConnections: number;
  /** @default no tenant's requests are limited */
  rates?: TenantRates | undefined;
  /** Counts the requests of keys. @default without a limit */
  admit?: AdmitActor | undefined;
  access: Pick<Access, "ended">;
  clock: Clock;
}): Route {
  const { namespace, cache, readCredentials, tokens, known, findInstance, uses, access, clock } = options;
  const { admissionOf, digitsToList, exposureOf } = createAdmissions({ namespace, cache, known });
  const changesOf = createForwardChanges();
  const openByLink = createOpenByLink({ tokens, clock });
  const hasWorkload = (name: string): boolean => cache.workloads.store.get({ namespace, name }) !== undefined;
  const toApi = createToApi({ api: options.api, hasWorkload, most: options.tenantConnections, access });
  const inUse = createCounts();
  /** Those that were admitted only because the workload is public. */
  const ofStrangers = createCounts();

  return (request) => {
    const { head } = request;
    const refuse = (answer: LocalAnswer): { kind: "answer"; answer: LocalAnswer } => {
      access.ended({ ...accessedOf(request), status: answer.status });
      return { kind: "answer", answer };
    };
    if (!options.isFresh()) return refuse(STALE);
    const frontDoor = options.frontDoor();
    const address = options.isKnownHost(head.host) ? readAddress(head, frontDoor.domain, { hasWorkload }) : undefined;
    if (address?.sandbox !== undefined && address.instance?.port === ENVD_PORT) return toApi(request, address);
    const credentials = readCredentials(head, address);
    // The response reveals nothing about the requested instance.
    if (credentials.presentsToken && !options.areKeysKnown()) return refuse(KEYS_UNKNOWN);
    if (credentials.hasUncheckedKey) return refuse(KEY_UNCHECKED);
    const { actor } = credentials;
    const overKey =
      actor &&
      limitOf(
        () => options.admit?.(actor),
        ({ message }) => message,
      );
    if (overKey !== undefined) return refuse(overKey);
    const admission = address && admissionOf({ address, credentials });
    if (address === undefined) return refuse(NOT_FOUND);
    if (admission === undefined) {
      const digits = digitsToList(address);
      if (digits === undefined || known.isListed(digits)) return refuse(NOT_FOUND);
      return forwardAfterList(request, { address, credentials, frontDoor, digits });
    }
    if (admission.pass.by === "link" && address.form === "host" && showsPages(head) && !request.isWebSocket) {
      const answer = toCookie(head, credentials, frontDoor);
      if (answer !== undefined) return refuse(answer);
    }
    if (isFull(admission)) return refuse(TOO_MANY);
    const limited = admission.pass.by === "public" ? undefined : overRate(admission);
    if (limited !== undefined) return refuse(limited);
    return forward(request, { address, credentials, admission, frontDoor });
  };

  interface Found {
    readonly address: Address;
    readonly credentials: Credentials;
    readonly frontDoor: FrontDoor;
  }

  /** Strangers leave half of a tenant's capacity to callers with the key or a link, whichever workload they request. */
  function isFull({ tenantId, pass }: Admission): boolean {
    const most = options.tenantConnections;
    if (inUse.of(tenantId) >= most) return true;
    return pass.by === "public" && ofStrangers.of(tenantId) >= Math.ceil(most / 2);
  }

  /** Counts a request of a tenant, or returns the answer to one too many. Strangers learn nothing of the tenant. */
  function overRate({ tenantId, pass }: Admission): LocalAnswer | undefined {
    const isStranger = pass.by === "public";
    return limitOf(
      () => options.rates?.admit(tenantId, { isStranger }),
      ({ message }) => (isStranger ? "too many requests to this address; try again later" : message),
    );
  }

  function limitOf(admit: () => void, says: (error: HttpError) => string): LocalAnswer | undefined {
    try {
      admit();
      return undefined;
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      return errorAnswer(error.status, says(error), [["Retry-After", error.headers["retry-after"] ?? "1"]]);
    }
  }

  /** A link is replaced by a cookie, so that its token leaves the address bar before someone copies it. */
  function toCookie(
    { host }: RequestHead,
    { link, target }: Credentials,
    frontDoor: FrontDoor,
  ): LocalAnswer | undefined {
    if (link === undefined) return undefined;
    const token = tokens.sign("cookie", link);
    if (token === undefined) return undefined;
    const maxAge = Math.max(1, Math.floor(link.expiresAt - clock.now() / 1000));
    return {
      status: 303,
      fields: [
        // A full URL: a path that begins with two slashes would lead to another host.
        ["Location", `${frontDoor.scheme}://${host}${target}`],
        ["Set-Cookie", linkCookie(frontDoor, token, maxAge)],
        ["Referrer-Policy", "no-referrer"],
      ],
      contentType: "text/plain",
      body: "",
    };
  }

  function forward(request: IncomingRequest, found: Found & { readonly admission: Admission }): Forward {
    const { workload, tenantId, port, pass } = found.admission;
    const key = { tenantId, workloadRef: workload };
    const isInsider = pass.by !== "public";
    // Everything in the path form is in a sandbox, in which a page cannot reload itself.
    const showsPage = found.address.form === "host" && showsPages(request.head);
    const wanted: Wanted = { key, port, showsPages: showsPage, isInsider, sandbox: found.address.sandbox };
    let stop: Stop | undefined;
    /** Of a link or a key. */
    let forgetPass: (() => void) | undefined;
    let use: InstanceUse | undefined;
    let pod: string | undefined;
    // Nothing below may hold the request: an open WebSocket would hold its head for as long as it lasts.
    const what = accessedOf(request);
    let lost: { uid: string; sinceMs: number; pods: number } | undefined;
    let isOver = false;
    let isCounted = isInsider;

    const exposure = exposureOf(workload);
    const isSafe = SAFE_METHODS.has(request.head.method);
    const begin = (awake: AwakePod): AwakePod => {
      use?.end();
      if (!isOver && stop !== undefined) use = uses.begin(awake, key, stop);
      if (!isSafe) use?.keep();
      pod = awake.name;
      return awake;
    };

    return {
      kind: "forward",
      ...changesOf(found),
      onStart(ends) {
        stop = ends;
        inUse.add(tenantId);
        if (!isInsider) ofStrangers.add(tenantId);
        if ("grant" in pass) forgetPass = openByLink.add(pass.grant, () => ends(NOT_FOUND));
        if ("actor" in pass) forgetPass = onAbort(pass.actor?.ended, () => ends(NOT_FOUND));
      },
      findPod(gone, last) {
        if (last !== undefined && lost?.uid !== last.target.uid)
          lost = { uid: last.target.uid, sinceMs: clock.now(), pods: (lost?.pods ?? 0) + 1 };
        if (last !== undefined && (lost?.pods ?? 0) > MAX_LOST_PODS) throw last.error;
        const sinceMs = lost?.sinceMs ?? 0;
        const find = (): AwakePod | Promise<AwakePod> => findInstance(wanted, gone, last && { ...last, sinceMs });
        const awake = isInsider ? find() : ifKnown(() => counted(find));
        if (!(awake instanceof Promise)) return begin(awake);
        return awake.then((found) => {
          // It may have been closed, or restricted, while the request waited.
          if (exposureOf(workload) !== exposure) throw new AnswerError(NOT_FOUND);
          return begin(found);
        });
      },
      ...(!isSafe && { untilKept: () => untilKept(use?.isKept()) }),
      onSwitch: () => use?.becomesSocket(),
      onTraffic: () => use?.onTraffic(),
      onEnd(end) {
        isOver = true;
        use?.end();
        forgetPass?.();
        inUse.remove(tenantId);
        options.rates?.addBytes(tenantId, end.received + end.sent, { isStranger: !isInsider });
        if (!isInsider) ofStrangers.remove(tenantId);
        access.ended({ ...what, tenant: tenantId, workload, pod, ...end });
      },
    };

    /** A stranger's request counts once its tenant is known: the answer to one too many must not show who is. */
    function counted(find: () => AwakePod | Promise<AwakePod>): AwakePod | Promise<AwakePod> {
      const limited = isCounted ? undefined : overRate(found.admission);
      isCounted = true;
      if (limited !== undefined) throw new AnswerError(limited);
      return find();
    }

    function ifKnown(find: () => AwakePod | Promise<AwakePod>): AwakePod | Promise<AwakePod> {
      const isKnown = known.has(key);
      if (isKnown instanceof Promise) {
        return isKnown.then(
          (is) => {
            if (!is) throw new AnswerError(NOT_FOUND);
            return find();
          },
          (cause) => {
            throw new AnswerError(STALE, { cause });
          },
        );
      }
      if (!isKnown) throw new AnswerError(NOT_FOUND);
      return find();
    }
  }

  function untilKept(isKept: true | Promise<boolean> | undefined): Promise<void> | undefined {
    if (!(isKept instanceof Promise)) return undefined;
    return isKept.then((is) => {
      if (!is) throw new AnswerError(MAY_BE_LOST);
    });
  }

  /** Returns a function that admits a visitor by the state at that time. */
  function entranceOf(request: IncomingRequest, found: Found): () => Forward {
    return () => {
      const admission = admissionOf(found);
      if (admission === undefined) throw new AnswerError(NOT_FOUND);
      if (isFull(admission)) throw new AnswerError(TOO_MANY);
      const limited = admission.pass.by === "public" ? undefined : overRate(admission);
      if (limited !== undefined) throw new AnswerError(limited);
      return forward(request, { ...found, admission });
    };
  }

  /**
   * Admits a visitor after the archives have been listed. Requests for closed and for missing instances wait alike, so
   * that the wait reveals nothing.
   */
  function forwardAfterList(request: IncomingRequest, { digits, ...found }: Found & { digits: string }): Forward {
    const what = accessedOf(request);
    // An open WebSocket must not hold the request.
    let enter: (() => Forward) | undefined = entranceOf(request, found);
    let admitted: Forward | undefined;
    let stop: Stop | undefined;

    return {
      kind: "forward",
      ...changesOf(found),
      onStart(ends) {
        stop = ends;
      },
      async findPod(gone, lost) {
        const signal = gone();
        if (enter !== undefined) {
          try {
            await orAborted(known.refresh(digits), signal);
          } catch (cause) {
            signal.throwIfAborted();
            throw new AnswerError(STALE, { cause });
          }
          signal.throwIfAborted();
          admitted = enter();
          enter = undefined;
          if (stop !== undefined) admitted.onStart?.(stop);
        }
        if (admitted === undefined) throw new AnswerError(NOT_FOUND);
        return admitted.findPod(gone, lost);
      },
      untilKept: () => admitted?.untilKept?.(),
      onSwitch: () => admitted?.onSwitch?.(),
      onTraffic: () => admitted?.onTraffic?.(),
      onEnd(end) {
        if (admitted === undefined) access.ended({ ...what, ...end });
        else admitted.onEnd?.(end);
      },
    };
  }
}
