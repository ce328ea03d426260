import { programContainer, programStatus } from "../../crds/claims/claim-pod.ts";
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
import { healthOf } from "../launcher/health-check.ts";
import { TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import { collectOutput } from "../snapshots/streams/exec-output.ts";

/** What a starting pod waits for. */
export interface Explanation {
  readonly reason: "Pulling" | "Unhealthy" | "Starting";
  readonly message: string;
  /** The field or setting to change if the wait does not end; it follows the verb "fix". */
  readonly fix: string;
}

/** A port that a program in a pod listens on. */
export interface Listening {
  readonly port: number;
  /** Whether other pods can reach it. */
  readonly isOpen: boolean;
}

const PROXY_PORTS = [REDIRECT_PORT, HEALTH_PORT];
const LOOK_LIMIT_MS = 5000;
const MOST_EVENTS = 500;
const LOOKUPS_AT_ONCE = 4;
/** The program that writes them comes from the image, so its output can be of any size. */
const MOST_SOCKETS_BYTES = 1024 * 1024;

interface StartSources {
  readonly cluster: Cluster;
  readonly config: { readonly namespace: string };
  /** Undefined: no command is run in pods. */
  readonly exec: Exec | undefined;
  readonly log: Log;
}

/** Explanations of slow starts, for the claims that wait for them. */
export interface StartExplanations {
  /** By pod uid. */
  readonly work: BackgroundWork<Explanation>;
  /** The last one, by pod uid. */
  readonly last: Map<string, LastExplanation>;
  /** Call this when the pod is ready or gone. */
  forget(podUid: string): void;
}

interface LastExplanation {
  readonly explanation: Explanation;
  /** The message of the pod's status at that time. */
  readonly message: string;
  readonly at: number;
  /** The pause until the next one. */
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
 * Explains a slow start beyond the pod's status. Probes, pulls and volumes are only in Events; the ports that a
 * container listens on are only in its `/proc/net/tcp`. Costs one list and at most one exec. Omits what cannot be read.
 *
 * @param message from the pod's status
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

/** The explanation from a pod's status and Events, and from its listening ports if they are known. */
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
  const startedAt = programStatus(pod)?.state?.running?.startedAt;
  const newestFirst = events
    .filter(({ involvedObject }) => involvedObject.uid === pod.metadata.uid)
    .sort((a, b) => timeOf(b) - timeOf(a));
  const unknown = { message, fix: "the workload's spec.health, or the program in its image" };
  if (startedAt !== undefined) {
    // Ignore probes of earlier runs of the program.
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
        fix: "spec.image.ref for a smaller image or a nearer registry, or spec.entrypoint.startTimeoutSeconds",
      };
    case "FailedMount":
    case "FailedAttachVolume":
      return {
        reason: "Starting",
        message: `a volume of the pod is not mounted yet: ${said}`,
        fix: "the volume that it names",
      };
    case "FailedCreatePodSandBox":
      return { reason: "Starting", message: `the node cannot set the pod up: ${said}`, fix: "the node" };
    default:
      return { reason: "Starting", ...unknown };
  }
}

/**
 * The kubelet's message about a failed probe, with the field of the workload that the probe comes from.
 * https://kubernetes.io/docs/concepts/workloads/pods/probes/
 */
function probeFailure(
  pod: Pod,
  { said, listening, at }: { said: string; listening: readonly Listening[] | undefined; at: number },
): Pick<Explanation, "message" | "fix"> {
  const container = programContainer(pod.spec);
  const probe = container?.readinessProbe ?? container?.startupProbe;
  const fromInside = healthOf(pod.spec);
  const port = portOf(probe) ?? fromInside.port;
  const hasPath = probe?.httpGet !== undefined || fromInside.path !== undefined;
  const declared = (container?.ports ?? []).map(({ containerPort }) => containerPort);
  const ownPort = hasPath ? "spec.health.httpGet.port" : "spec.health.tcpSocket.port";
  const field = hasPath || (port !== undefined && port !== declared[0]) ? ownPort : "spec.network.ports";
  // The kubelet reports about the first 25 failures, then one in five minutes.
  const when = `the health check failed at ${new Date(at).toISOString().slice(0, 19)}Z`;
  const why = said.replace(/^(Startup|Readiness) probe failed: /, "").trim();
  if (/connection refused/.test(why)) {
    const declares =
      port === undefined || declared.includes(port) ? "" : `; the workload declares ${declared.join(", ")}`;
    const message = `${when}: connection refused on port ${port} (${field})${declares}`;
    return {
      message: `${message}${listeningHint(listening, port)}`,
      fix: `the workload's ${field}, or the program that should listen there`,
    };
  }
  const status = /statuscode: (\d+)/.exec(why)?.[1];
  if (status !== undefined) {
    const path = probe?.httpGet?.path ?? "/";
    return {
      message: `${when}: GET ${path} (spec.health.httpGet.path) on port ${port} is answered with ${status}`,
      fix: "the workload's spec.health.httpGet.path, or what the program answers there",
    };
  }
  if (/deadline exceeded|Client\.Timeout|i\/o timeout|timed out/.test(why)) {
    return {
      message: `${when}: no answer on port ${port} within ${probe?.timeoutSeconds ?? 1} s`,
      fix: "the program, or the workload's spec.health",
    };
  }
  return {
    message: probe?.exec === undefined ? `${when}: on port ${port}, ${why}` : `${when}: ${why || NO_WORDS}`,
    fix: "the workload's spec.health, or its program",
  };
}

/** Of a command that fails and writes nothing. */
const NO_WORDS = "the command of spec.health.exec failed";

function listeningHint(listening: readonly Listening[] | undefined, port: number | undefined): string {
  if (listening === undefined) return "";
  if (listening.length === 0) return "; nothing in the pod listens yet";
  if (listening.some((one) => one.port === port && !one.isOpen))
    return "; the program listens there only on the loopback address: make it listen on 0.0.0.0";
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
  // `lastTimestamp` has whole seconds, `eventTime` of events.k8s.io has microseconds.
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

/** Reads the ports in the container, with the operator's tools if the pod has them, else with the image's `cat`. */
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
 * Reads the listening ports from `/proc/net/tcp` and `tcp6`; undefined if the text has another format.
 * https://docs.kernel.org/networking/proc_net_tcp.html
 */
export function parseListening(text: string): Listening[] | undefined {
  if (!/^ *sl +local_address/m.test(text)) return undefined;
  const found: Listening[] = [];
  for (const [, address = "", port = ""] of text.matchAll(
    /^ *\d+: ([0-9A-F]{8,32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /gm,
  )) {
    // 127.0.0.1, ::1 and ::ffff:127.0.0.1, each word in the byte order of the machine.
    const isLoopback = /^(0{16}FFFF0000)?[0-9A-F]{6}7F$|^0{24}01000000$/.test(address);
    found.push({ port: Number.parseInt(port, 16), isOpen: !isLoopback });
  }
  return found;
}
