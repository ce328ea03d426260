import type { Clock } from "../../../crds/client/clock.ts";
import type { Route } from "../../../edge/proxy/client-connection.ts";
import { createOriginReader } from "../../../edge/proxy/entry/origin.ts";
import type { ExchangeEnd, Forward } from "../../../edge/proxy/forward.ts";
import type { PodTarget } from "../../../edge/proxy/pod-connections.ts";
import { type ProxyLimits, serveProxy } from "../../../edge/proxy/serve-proxy.ts";
import { silentLog } from "../silent-log.ts";

const running = new Set<() => Promise<unknown>>();

/** Has what a test started closed after it, also where it failed. */
export function closeAfter(close: () => Promise<unknown>): void {
  running.add(close);
}

/** For `test.after.each`: closes what the test has started, the last first. */
export async function closeAll(): Promise<void> {
  const closes = [...running].reverse();
  running.clear();
  for (const close of closes) await close();
}

/** A proxy on a port of its own, which forwards everything to one pod. */
export async function startProxy(options: {
  pod?: PodTarget;
  forward?: Partial<Forward>;
  route?: Route;
  limits?: Partial<ProxyLimits>;
  scheme?: "http" | "https";
  clock?: Clock;
}) {
  const ends: Pick<ExchangeEnd, "status" | "received" | "sent" | "isComplete">[] = [];
  const problems: (object | undefined)[] = [];
  const { pod, forward, limits, scheme = "http", clock } = options;
  let requests = 0;
  const toPod: Forward = {
    kind: "forward",
    findPod: (_, lost) => {
      if (pod === undefined) throw new Error("Cannot forward: the test has no pod");
      if (lost !== undefined) throw lost.error;
      return pod;
    },
    request: {},
    response: {},
    onEnd({ status, received, sent, isComplete, problem }) {
      ends.push({ status, received, sent, isComplete });
      problems.push(problem);
    },
    ...forward,
  };
  const proxy = await serveProxy({
    route: options.route ?? (() => toPod),
    listen: { hostname: "127.0.0.1", port: 0 },
    log: silentLog,
    requestId() {
      requests += 1;
      return `request-${requests}`;
    },
    ...(limits !== undefined && { limits }),
    originOf: createOriginReader({ trusted: [], scheme }),
    ...(clock !== undefined && { clock }),
  });
  closeAfter(() => proxy.stop({ graceMs: 0 }));
  return { ...proxy, ends, problems };
}
