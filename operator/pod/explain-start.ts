import { events } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import type { Cluster } from "../../crds/client/cluster.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { CoreEvent, Pod, Probe } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import { withTimeLimit } from "../../crds/waits.ts";
import { type BackgroundWork, createBackgroundWork } from "../background-work.ts";
import { HEALTH_PORT, PROXY_CONTAINER, REDIRECT_PORT } from "../egress/layout.ts";
import { TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import { collectOutput } from "../snapshots/streams/exec-output.ts";

/** What a starting pod waits for, and what to change if that never comes; the latter as the object of "mend". */
export interface Explanation {
  readonly reason: "Pulling" | "Unhealthy" | "Starting";
  readonly message: string;
  readonly mend: string;
}

/** Where something listens in a pod: a port, and whether others than the pod itself reach it. */
export interface Listening {
  readonly port: number;
  readonly isOpen: boolean;
}

const PROXY_PORTS = [REDIRECT_PORT, HEALTH_PORT];
const LOOK_LIMIT_MS = 5000;
const MOST_EVENTS = 500;
const LOOKUPS_AT_ONCE = 4;
/** The program that writes them is the image's, and so may be anything. */
const MOST_SOCKETS_BYTES = 1024 * 1024;

/** Whom to ask. */
interface StartSources {
  readonly cluster: Cluster;
  readonly config: { readonly namespace: string };
  /** Undefined: nothing is asked in pods. */
  readonly exec: Exec | undefined;
  readonly log: Log;
}

/** Explanations of starts that take long, for the claims that wait for them. */
export interface StartExplanations {
  /** By pod uid. */
  readonly work: BackgroundWork<Explanation>;
  /** The last one, by pod uid. */
  readonly last: Map<string, LastExplanation>;
  /** To be called when the pod is there or gone. */
  forget(podUid: string): void;
}

interface LastExplanation {
  readonly explanation: Explanation;
  /** What the pod's status said then. */
  readonly message: string;
  readonly at: number;
  /** Until the next one. */
  readonly pauseMs: number;
}

export function createStartExplanations(): StartExplanations {
  const work = createBackgroundWork<Explanation>({ concurrency: LOOKUPS_AT_ONCE });
  const last: StartExplanations["last"] = new Map();
  return {
    work,
    last,
    forget(podUid) {
      work.forget(podUid);
      last.delete(podUid);
    },
  };
}

/**
 * Explains a start that takes long, with what the pod's status does not say: probes, pulls and volumes are only in
 * Events, and the ports that a container listens on only in its own `/proc/net/tcp`. Costs one list and at most one
 * exec. What cannot be read is left out.
 *
 * @param message what the pod's status says
 */
export async function explainStart(
  { pod, message, signal }: { pod: Pod; message: string; signal?: AbortSignal | undefined },
  context: StartSources,
): Promise<Explanation> {
  const limit = { what: "the explanation of a start", ms: LOOK_LIMIT_MS, clock: systemClock, signal };
  return withTimeLimit(limit, async (limited) => {
    const found = await podEvents(pod, limited, context);
    const first = explanation({ pod, message, events: found });
    if (!/connection refused/.test(first.message)) return first;
    return explanation({ pod, message, events: found, listening: await listeningPorts(pod, limited, context) });
  });
}

/** The explanation that follows from a pod's status and its Events, and from where it listens, where that is known. */
export function explanation({
  pod,
  message,
  events,
  listening,
}: {
  pod: Pod;
  message: string;
  events: readonly CoreEvent[];
  listening?: readonly Listening[] | undefined;
}): Explanation {
  const own = pod.status?.containerStatuses?.find(({ name }) => name === WORKLOAD_CONTAINER);
  const startedAt = own?.state?.running?.startedAt;
  const newestFirst = events
    .filter(({ involvedObject }) => involvedObject.uid === pod.metadata.uid)
    .sort((a, b) => timeOf(b) - timeOf(a));
  const unknown = { message, mend: "the workload's spec.health, or the program in its image" };
  if (startedAt !== undefined) {
    // A probe of an earlier run of the program says nothing of this one.
    const probed = newestFirst.find((event) => event.reason === "Unhealthy" && timeOf(event) >= Date.parse(startedAt));
    return probed === undefined
      ? { reason: "Starting", ...unknown }
      : { reason: "Unhealthy", ...probeFailure(pod, { said: probed.message ?? "", listening, at: timeOf(probed) }) };
  }
  const newest = newestFirst.find(({ reason }) => reason !== "Scheduled");
  const said = newest?.message ?? "";
  switch (newest?.reason) {
    case "Pulling":
      return {
        reason: "Pulling",
        message: `image ${quotedIn(said)} is being pulled`,
        mend: "spec.image.ref for a smaller image or a nearer registry, or the operator's TENANCY_START_TIMEOUT",
      };
    case "FailedMount":
    case "FailedAttachVolume":
      return {
        reason: "Starting",
        message: `a volume of the pod is not there yet: ${said}`,
        mend: "the volume that it names",
      };
    case "FailedCreatePodSandBox":
      return { reason: "Starting", message: `the node cannot set the pod up: ${said}`, mend: "the node" };
    default:
      return { reason: "Starting", ...unknown };
  }
}

/**
 * What the kubelet says of a probe, https://kubernetes.io/docs/concepts/workloads/pods/probes/, with the field that it
 * comes from.
 */
function probeFailure(
  pod: Pod,
  { said, listening, at }: { said: string; listening: readonly Listening[] | undefined; at: number },
): Pick<Explanation, "message" | "mend"> {
  const container = pod.spec.containers.find(({ name }) => name === WORKLOAD_CONTAINER);
  const probe = container?.readinessProbe ?? container?.startupProbe;
  const port = portOf(probe);
  const field = probe?.httpGet === undefined ? "spec.network.ports" : "spec.health.httpGet.port";
  // The kubelet tells of the first 25 or so, then of one in five minutes.
  const when = `the health check failed at ${new Date(at).toISOString().slice(0, 19)}Z`;
  const why = said.replace(/^(Startup|Readiness) probe failed: /, "").trim();
  if (/connection refused/.test(why)) {
    const declared = (container?.ports ?? []).map(({ containerPort }) => containerPort);
    const declares =
      port === undefined || declared.includes(port) ? "" : `; the workload declares ${declared.join(", ")}`;
    const message = `${when}: connection refused on port ${port} (${field})${declares}`;
    return {
      message: `${message}${listeningHint(listening, port)}`,
      mend: `the workload's ${field}, or the program that should listen there`,
    };
  }
  const status = /statuscode: (\d+)/.exec(why)?.[1];
  if (status !== undefined) {
    const path = probe?.httpGet?.path ?? "/";
    return {
      message: `${when}: GET ${path} (spec.health.httpGet.path) on port ${port} is answered with ${status}`,
      mend: "the workload's spec.health.httpGet.path, or what the program answers there",
    };
  }
  if (/deadline exceeded|Client\.Timeout|i\/o timeout/.test(why)) {
    return {
      message: `${when}: no answer on port ${port} within ${probe?.timeoutSeconds ?? 1} s`,
      mend: "the program, or the workload's spec.health",
    };
  }
  return {
    message: `${when}: on port ${port}, ${why}`,
    mend: "the workload's spec.health, or its program",
  };
}

function listeningHint(listening: readonly Listening[] | undefined, port: number | undefined): string {
  if (listening === undefined) return "";
  if (listening.length === 0) return "; nothing in the pod listens yet";
  if (listening.some((one) => one.port === port && !one.isOpen))
    return "; the program listens there on the loopback address alone: have it listen on 0.0.0.0";
  const open = [...new Set(listening.filter(({ isOpen }) => isOpen).map((one) => one.port))].sort((a, b) => a - b);
  return open.length === 0 ? "" : `; the pod listens on port ${open.join(", ")}`;
}

function portOf(probe: Probe | undefined): number | undefined {
  const port = probe?.httpGet?.port ?? probe?.tcpSocket?.port;
  return port === undefined ? undefined : Number(port);
}

function quotedIn(text: string): string {
  return /"[^"]+"/.exec(text)?.[0] ?? "of the pod";
}

function timeOf({ lastTimestamp, series, eventTime, firstTimestamp, metadata }: CoreEvent): number {
  const time = lastTimestamp ?? series?.lastObservedTime ?? eventTime ?? firstTimestamp ?? metadata.creationTimestamp;
  // Whole seconds here, and the microseconds of events.k8s.io there.
  return Math.floor(Date.parse(time ?? "") / 1000) * 1000 || 0;
}

async function podEvents(pod: Pod, signal: AbortSignal, { cluster, log }: StartSources): Promise<CoreEvent[]> {
  const { name, uid = "" } = pod.metadata;
  const fieldSelector = `involvedObject.uid=${uid}`;
  try {
    return (await cluster(events).list({ fieldSelector, limit: MOST_EVENTS, signal })).items;
  } catch (error) {
    log.info({ pod: name, error }, "cannot read the Events of a starting pod");
    return [];
  }
}

/** Asked of the container itself: by the operator's tools where it has them, else by the image's own `cat`. */
async function listeningPorts(
  pod: Pod,
  signal: AbortSignal,
  { exec, config, log }: StartSources,
): Promise<Listening[] | undefined> {
  if (exec === undefined) return undefined;
  const cat = podFiles(pod).overlayDirs.length > 0 ? [TOOLS_BUSYBOX, "cat"] : ["cat"];
  const { name } = pod.metadata;
  const command = [...cat, "/proc/net/tcp", "/proc/net/tcp6"];
  const target = { namespace: config.namespace, pod: name, container: WORKLOAD_CONTAINER, command };
  try {
    const { stdout } = await collectOutput(exec, {
      ...{ target, signal, timeoutMs: LOOK_LIMIT_MS, maxBytes: MOST_SOCKETS_BYTES },
    });
    const isProxied = pod.spec.containers.some((container) => container.name === PROXY_CONTAINER);
    return parseListening(stdout)?.filter(({ port }) => !isProxied || !PROXY_PORTS.includes(port));
  } catch (error) {
    log.debug({ pod: name, error }, "cannot read the listening ports of a pod");
    return undefined;
  }
}

/**
 * Reads the ports that are listened on from `/proc/net/tcp` and `tcp6`,
 * https://docs.kernel.org/networking/proc_net_tcp.html; undefined where it is nothing of that kind.
 */
export function parseListening(text: string): Listening[] | undefined {
  if (!/^ *sl +local_address/m.test(text)) return undefined;
  const found: Listening[] = [];
  for (const [, address = "", port = ""] of text.matchAll(
    /^ *\d+: ([0-9A-F]{8,32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /gm,
  )) {
    // In the byte order of the machine, a word at a time: 127.0.0.1, ::1 and ::ffff:127.0.0.1.
    const isLoopback = /^(0{16}FFFF0000)?[0-9A-F]{6}7F$|^0{24}01000000$/.test(address);
    found.push({ port: Number.parseInt(port, 16), isOpen: !isLoopback });
  }
  return found;
}
