import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Clock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { ExchangeEnd } from "./forward.ts";

/** A request that is over, as the access log shows it. */
export interface Accessed extends Partial<ExchangeEnd> {
  readonly status: number;
  readonly requestId: string;
  readonly method: string;
  /** Without its query, which may hold what nobody should read. */
  readonly path: string;
  /** Absent where nobody was let in. */
  readonly tenant?: string;
  readonly workload?: string;
  readonly pod?: string | undefined;
}

/** Counts and logs what goes through the front door. */
export interface Access {
  ended(request: Accessed): void;
  /** A request that was not even routed. */
  refused(status: number): void;
  woken(source: string, ms: number): void;
  /** Removes what was counted of a workload that was deleted: they may come and go without end. */
  forget(workload: string): void;
}

/** For who was not let in: the workloads that strangers ask for are no label. */
const NO_WORKLOAD = "-";
/** For a good answer that did not reach its end, whoever broke it off: no success. */
const CUT = "cut";
/** Told one by one: what says that a client went, or that an instance was not there in time. */
const TOLD = new Set([499, 502, 503, 504]);

/** @param options.logRate lines a second at most; what is left out is counted in the next line */
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
    help: "Requests to instances, by how they ended",
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
    help: "Time from the first request for a pod that slept to the pod",
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
    help: "Instances that requests wait for",
    registers,
    collect() {
      this.set(gauges.waking());
    },
  });
  const received = bytes.labels("received");
  const sent = bytes.labels("sent");
  // Finding the series of a set of labels costs more than counting. By workload, then by code.
  const counters = new Map<string, Map<string, ReturnType<typeof requests.labels>>>();
  const histograms = new Map<string, ReturnType<typeof seconds.labels>>();
  const mayLog = createRateLimit(logRate, clock);

  function count(workload: string, status: number, isComplete = true): void {
    const code =
      !isComplete && status < 400 ? CUT : TOLD.has(status) ? String(status) : `${Math.floor(status / 100)}xx`;
    let ofWorkload = counters.get(workload);
    if (ofWorkload === undefined) {
      ofWorkload = new Map();
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

/** Returns what says whether a line may go out: how many did not since the last one that did, else undefined. */
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
