import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Clock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { IncomingRequest } from "./client-connection.ts";
import type { ExchangeEnd } from "./forward.ts";

/** A finished request as shown in the access log. */
export interface Accessed extends Partial<ExchangeEnd> {
  readonly status: number;
  readonly requestId: string;
  readonly method: string;
  /** Without its query, which may contain secrets. */
  readonly path: string;
  /** Absent if the visitor was not admitted; as requested where the API decides that. */
  readonly tenant?: string;
  readonly workload?: string;
  readonly pod?: string | undefined;
}

/** Characters of a path in the log, which strangers could fill with long paths. */
const MAX_LOGGED = 256;

/** What a request itself says for the log; its path without the query. */
export function accessedOf({
  head,
  requestId,
}: Pick<IncomingRequest, "head" | "requestId">): Pick<Accessed, "requestId" | "method" | "path"> {
  const { method, target } = head;
  const query = target.indexOf("?");
  const path = query === -1 ? target : target.slice(0, query);
  return { requestId, method, path: path.length > MAX_LOGGED ? `${path.slice(0, MAX_LOGGED)}…` : path };
}

/** Counts and logs requests through the front door. */
export interface Access {
  ended(request: Accessed): void;
  /** A request that was refused before routing. */
  refused(status: number): void;
  woken(source: string, ms: number): void;
  /** Removes the metrics of a deleted workload: workloads may come and go without end. */
  forget(workload: string): void;
}

/** For visitors that were not admitted: a workload name chosen by strangers must not become a label. */
const NO_WORKLOAD = "-";
/** For a successful response that did not complete, whichever side broke it off: not a success. */
const CUT = "cut";
/** Instance not available in time. */
const UNAVAILABLE = [502, 503, 504];
/** Labelled individually; 499: client disconnected. */
const TOLD = new Set([499, ...UNAVAILABLE]);

/** @param options.logRate maximum lines per second; omitted lines are counted in the next one */
export function createAccess(options: {
  registry: Registry;
  gauges: { clients: () => number; pods: () => number; waking: () => number };
  log: Log;
  logRate: number;
  clock: Clock;
}): Access {
  const { registry, gauges, log, logRate, clock } = options;
  const registers = [registry];
  const requests = new Counter({
    name: "tenancy_proxy_requests_total",
    help: "Requests to instances, by result",
    labelNames: ["workload", "code"],
    registers,
  });
  const seconds = new Histogram({
    name: "tenancy_proxy_duration_seconds",
    help: "Time from a request's head to the head of the pod's response",
    labelNames: ["workload"],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers,
  });
  const wakes = new Histogram({
    name: "tenancy_proxy_wake_seconds",
    help: "Time from the first request for a released instance to its pod",
    labelNames: ["source"],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers,
  });
  const bytes = new Counter({
    name: "tenancy_proxy_bytes_total",
    help: "Bytes of bodies and WebSockets",
    labelNames: ["direction"],
    registers,
  });
  new Gauge({
    name: "tenancy_proxy_connections",
    help: "Open connections",
    labelNames: ["side"],
    registers,
    collect() {
      this.set({ side: "client" }, gauges.clients());
      this.set({ side: "pod" }, gauges.pods());
    },
  });
  new Gauge({
    name: "tenancy_proxy_waking",
    help: "Instances that requests are waiting for",
    registers,
    collect() {
      this.set(gauges.waking());
    },
  });
  const received = bytes.labels("received");
  const sent = bytes.labels("sent");
  // Finding the series of a label set costs more than counting. By workload, then by code.
  const counters = new Map<string, Map<string, ReturnType<typeof requests.labels>>>();
  const histograms = new Map<string, ReturnType<typeof seconds.labels>>();
  const mayLog = createRateLimit(logRate, clock);

  function count(workload: string, status: number, isComplete = true): void {
    const code =
      !isComplete && status < 400 ? CUT : TOLD.has(status) ? String(status) : `${Math.floor(status / 100)}xx`;
    let ofWorkload = counters.get(workload);
    if (ofWorkload === undefined) {
      ofWorkload = new Map(UNAVAILABLE.map((one) => [String(one), requests.labels(workload, String(one))]));
      // Prometheus sees no increase in a series that begins above zero.
      for (const unavailable of ofWorkload.values()) unavailable.inc(0);
      counters.set(workload, ofWorkload);
    }
    let counter = ofWorkload.get(code);
    if (counter === undefined) {
      counter = requests.labels(workload, code);
      ofWorkload.set(code, counter);
    }
    counter.inc();
  }

  return {
    ended(request) {
      const { workload = NO_WORKLOAD, status, answeredMs } = request;
      count(workload, status, request.isComplete);
      if (answeredMs !== undefined) {
        let histogram = histograms.get(workload);
        if (histogram === undefined) {
          histogram = seconds.labels(workload);
          histograms.set(workload, histogram);
        }
        histogram.observe(answeredMs / 1000);
      }
      if (request.received) received.inc(request.received);
      if (request.sent) sent.inc(request.sent);
      const skipped = mayLog();
      if (skipped !== undefined) log.info(skipped === 0 ? request : { ...request, skipped }, "proxied");
    },
    refused: (status) => count(NO_WORKLOAD, status),
    woken: (source, ms) => wakes.observe({ source }, ms / 1000),
    forget(workload) {
      for (const code of counters.get(workload)?.keys() ?? []) requests.remove(workload, code);
      counters.delete(workload);
      if (histograms.delete(workload)) seconds.remove(workload);
    },
  };
}

/**
 * Returns a function that decides whether a line may be logged: the number of lines omitted since the last one, or
 * undefined.
 */
function createRateLimit(perSecond: number, clock: Clock): () => number | undefined {
  let second = 0;
  let used = 0;
  let skipped = 0;
  return () => {
    const now = Math.floor(clock.now() / 1000);
    if (now !== second) {
      second = now;
      used = 0;
    }
    if (used >= perSecond) {
      skipped += 1;
      return undefined;
    }
    used += 1;
    const before = skipped;
    skipped = 0;
    return before;
  };
}
