import { buildRequest } from "../../../crds/builds/build-request.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { buildJobName } from "../../../crds/names.ts";
import { quote } from "../../../crds/quote.ts";
import type { Workload, WorkloadStatus } from "../../../crds/workload.ts";
import { platformOnly, serviceView } from "../../access/route-access.ts";
import { askUntil } from "../../http/ask-until.ts";
import { HttpError } from "../../http/http-error.ts";
import { pathParam, queryFlag, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { type KubectlError, kubectlError } from "../../kubectl/kubectl-errors.ts";
import { containerRuns, podLogs } from "../../kubectl/pod-logs.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { tailOf, tailSchema } from "../instances/logs.ts";
import { doneSchema } from "../openapi/schemas.ts";
import { annotateWorkload, readWorkload } from "../workloads.ts";
import { type ContextServices, keepContext, notBuilt } from "./keep-context.ts";

export type BuildServices = Omit<ContextServices, "contextLimitBytes"> & {
  /** Returns 16 random hexadecimal digits. */
  readonly randomId: () => string;
  readonly builds: {
    /** Namespace of the builds. */
    readonly namespace: string;
    /** Runs in the build namespace. */
    readonly kubectl: Kubectl;
    readonly contextLimitBytes: number;
  };
};

const ONE = "/api/v1/workloads/:name/build";
/** How long a followed log waits for its build: a rebuild begins a moment after its request. */
const LOG_LIMIT_MS = 30_000;
/** Each upload runs its own kubectl. */
const UPLOADS_AT_ONCE = 4;

/** Routes of workloads whose image is built: the build context, the state of the build, and its log. */
export function buildRoutes(services: BuildServices): ApiRoute[] {
  const { cluster, builds, clock } = services;
  let uploads = 0;

  return [
    {
      method: "PUT",
      path: "/api/v1/workloads/:name/context",
      access: platformOnly,
      summary: "Upload the build context of a workload",
      description:
        "A folder as tar or tar.gz, detected by its first bytes. Links that leave the folder, devices and `..` are refused. The workload then refers to this context, and its image is built again if the context has changed.",
      rawBody: ["application/x-tar", "application/gzip"],
      answer: "Context",
      errors: [404, 408, 409, 413, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const name = pathParam(request, "name", workloadNameRule);
        if (uploads >= UPLOADS_AT_ONCE) {
          throw new HttpError(503, `${UPLOADS_AT_ONCE} build contexts are being uploaded already; try again soon`, {
            headers: { "retry-after": "5" },
          });
        }
        uploads += 1;
        mayBeSilent?.();
        try {
          const { contextLimitBytes } = builds;
          const gone = clientGone ?? request.signal;
          return jsonResponse(await keepContext(request, name, { ...services, contextLimitBytes, clientGone: gone }));
        } finally {
          uploads -= 1;
        }
      },
    },
    {
      method: "GET",
      path: ONE,
      access: serviceView,
      summary: "State of a workload's image build",
      answer: "Build",
      errors: [404, 409, 503],
      async handle(request) {
        return jsonResponse(buildResponse(await find(request)));
      },
    },
    {
      method: "POST",
      path: ONE,
      access: platformOnly,
      summary: "Rebuild the image of a workload",
      description:
        "Rebuilds even if nothing has changed: a branch or a base image may have moved on. The current image is used until the new one is built.",
      answer: doneSchema("requested", "workload"),
      errors: [404, 409, 503],
      async handle(request) {
        const workload = await find(request);
        const { name } = workload.metadata;
        const rebuild = { [annotation.rebuild]: services.randomId() };
        await annotateWorkload(workload, rebuild, services);
        return jsonResponse({ status: "requested", workload: name });
      },
    },
    {
      method: "GET",
      path: `${ONE}/logs`,
      access: platformOnly,
      summary: "Log of the newest build of a workload",
      description:
        "The log of the build, or of fetching its context until that has finished. With `follow`, waits up to 30 s for a build that is about to begin.",
      query: { tail: tailSchema, follow: flagSchema("Whether to follow the log.") },
      answer: "text/plain",
      errors: [404, 409, 503, 504],
      async handle(request, { clientGone, mayBeSilent, headWaits = false }) {
        const [tail, follow] = [tailOf(request), queryFlag(request, "follow")];
        const { name } = (await find(request)).metadata;
        mayBeSilent?.();
        const gone = clientGone ?? request.signal;
        const { pod, isPending, isStarting } = await askUntil(() => logOf(request), {
          isGood: (log) => !log.isPending && !log.isStarting,
          ...{ limitMs: follow ? LOG_LIMIT_MS : 0, clock, clientGone: gone },
        });
        if (follow && (isPending || (isStarting && pod === undefined))) throw notBegun(name);
        if (pod === undefined) throw noLog(name);
        const container = isContextThere(pod) ? "build" : "context";
        return podLogs(
          { pod: pod.metadata.name, container, tail, follow, runs: !headWaits && containerRuns(pod, container) },
          {
            ...{ kubectl: builds.kubectl, clock, clientGone: gone },
            failure: (stderr) => kubectlError(stderr, (failure) => logError(failure, name)),
          },
        );
      },
    },
  ];

  async function find(request: RoutedRequest): Promise<Workload> {
    const workload = await readWorkload(pathParam(request, "name", workloadNameRule), services);
    if (workload.spec.image.dockerfile === undefined) throw notBuilt(workload.metadata.name);
    return workload;
  }

  /** The pod of the build, and whether a newer build, or this build's first line, is about to appear. */
  async function logOf(
    request: RoutedRequest,
  ): Promise<{ pod: Pod | undefined; isPending: boolean; isStarting: boolean }> {
    const workload = await find(request);
    const { state, key, tries } = buildStatus(workload);
    const pod = await buildPod(workload.metadata.name, state === "Pending" ? undefined : key);
    const isStarting = state === "Building" && (pod === undefined || !hasBegun(pod));
    const isRetried = state === "Failed" && tries !== undefined && pod === undefined;
    return { pod, isPending: state === "Pending" || isRetried, isStarting };
  }

  /** The newest pod of the build with this key; undefined: of any build. Not one that is being deleted. */
  async function buildPod(workload: string, key: string | undefined): Promise<Pod | undefined> {
    const selected = {
      ...{ [label.build]: "true", [label.workload]: workload },
      ...(key !== undefined && { "batch.kubernetes.io/job-name": buildJobName(workload, key) }),
    };
    const terms = Object.entries(selected);
    const labelSelector = terms.map((term) => term.join("=")).join(",");
    const { items } = await cluster(pods).in(builds.namespace).list({ labelSelector });
    const createdAt = ({ metadata }: Pod): number => Date.parse(metadata.creationTimestamp ?? "") || 0;
    return items
      .filter(({ metadata: { labels = {} } }) => terms.every(([name, value]) => labels[name] === value))
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .sort((a, b) => createdAt(b) - createdAt(a))[0];
  }
}

type BuildStatus = NonNullable<WorkloadStatus["build"]>;

type BuildResponse = BuildStatus & { workload: string; context?: string; image?: string };

function buildResponse(workload: Workload): BuildResponse {
  const { metadata, spec, status } = workload;
  const context = spec.image.context === undefined ? metadata.annotations?.[annotation.buildContext] : undefined;
  return {
    workload: metadata.name,
    ...buildStatus(workload),
    ...(context !== undefined && { context }),
    ...(status?.image !== undefined && { image: status.image }),
  };
}

/**
 * The build that a workload requests now. Its status may describe an earlier one, since the operator sees a new context
 * or rebuild request a moment later. For a workload that is refused for another reason, no build begins or continues.
 */
function buildStatus(workload: Workload): BuildStatus {
  const { build, phase, reason, message, observedGeneration } = workload.status ?? {};
  const present = build?.request === buildRequest(workload) ? build : ({ state: "Pending" } as const);
  if (present.state === "Built" || present.state === "Failed") return present;
  const isRefused = phase === "Error" && (build === undefined || reason !== build.reason);
  if (!isRefused || observedGeneration !== workload.metadata.generation) return present;
  return { state: "Failed", ...(reason !== undefined && { reason }), ...(message !== undefined && { message }) };
}

/** Whether the init container that fetches the context has finished, so that the build is next or in progress. */
function isContextThere({ status }: Pod): boolean {
  return (status?.initContainerStatuses ?? []).some(({ state }) => state?.terminated?.exitCode === 0);
}

/** Whether the build has printed something or never will: fetching the context prints nothing unless it fails. */
function hasBegun({ status }: Pod): boolean {
  const { initContainerStatuses = [], containerStatuses = [] } = status ?? {};
  const isRefused = initContainerStatuses.some(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0);
  return isRefused || containerStatuses.some(({ state }) => state?.running ?? state?.terminated);
}

function logError(failure: KubectlError, workload: string): HttpError | undefined {
  switch (failure.kind) {
    case "no pod":
      return noLog(workload);
    case "not running":
      return new HttpError(409, `the build of workload ${quote(workload)} has not started yet: ${failure.reason}`, {
        headers: { "retry-after": "1" },
      });
    case "no node":
    case "cut":
      return new HttpError(503, `the node of the build of workload ${quote(workload)} cannot be reached`, {
        headers: { "retry-after": "1" },
      });
    default:
      return undefined;
  }
}

function notBegun(workload: string): HttpError {
  const seconds = LOG_LIMIT_MS / 1000;
  return new HttpError(504, `the build of workload ${quote(workload)} has not started after ${seconds} s; try again`);
}

function noLog(workload: string): HttpError {
  return new HttpError(
    404,
    `no build log of workload ${quote(workload)}: no build has started, or its pod has been deleted`,
  );
}
