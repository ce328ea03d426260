import { writeFileSync } from "node:fs";
import {
  type ClientRequest,
  createServer,
  type IncomingMessage,
  Agent as PlainAgent,
  request as requestOverHttp,
  type ServerResponse,
} from "node:http";
import { Agent, request } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { stringify } from "yaml";
import { readKubeconfig } from "../../cluster/kubernetes/api-client.ts";
import type { SoakObjects } from "../cluster/object-storage.ts";
import type { SoakCluster } from "../cluster/soak-cluster.ts";
import type { Decisions } from "../decisions.ts";

/** What goes wrong between one program and the API server, and object storage where there is some, at this moment. */
export interface ActiveFaults {
  /** Calls that are refused before the API server hears of them. */
  refuse: { readonly probability: number; readonly statuses: readonly number[] } | undefined;
  /** Calls that wait; a call whose caller disconnects during the wait is never sent. */
  stall: { readonly probability: number; readonly mostMs: number } | undefined;
  /** Probability that a write is done and its answer never comes. */
  loseAnswer: number;
  /** Probability that an answer ends in its middle. */
  cutAnswer: number;
}

/** Stands between one program and the API server, and between it and object storage where there is some. */
export interface FaultProxy {
  readonly name: string;
  /** Where object storage is reached through it. */
  readonly url: string;
  readonly kubeconfigPath: string;
  readonly faults: ActiveFaults;
  /**
   * From now on every line of that kind's watches comes so many milliseconds late; with 0, those that are late come at
   * once.
   */
  delayWatches(plural: string, ms: number): void;
  /** Ends every connection. */
  cut(): void;
  /** Tells every watch of the kind that its resource version is too old; of all kinds without one. */
  expireWatches(plural?: string): void;
  /** Ends all faults; late lines of watches come at once. */
  heal(): void;
  /** How many requests each fault has hit. */
  readonly hits: Map<string, number>;
  /** How many writes have passed so far, without those of leases and Events. */
  writes(): number;
  /** The last of these writes, the latest at the end. */
  lastWrites(most: number): readonly string[];
  close(): Promise<void>;
}

export interface FaultProxyOptions {
  name: string;
  /** Of an administrator; its copy with the proxy's address is written beside it. */
  kubeconfigPath: string;
  decisions: Decisions;
  /** Answers `pods/<name>/exec` where there is no kubelet behind the API server; without it, the API server does. */
  onExec?: SoakCluster["onExec"];
  /** The same of requests to the helper pod. */
  helperPort?: SoakCluster["helperPort"];
  /** Gets what is asked of its bucket. */
  objects?: SoakObjects | undefined;
  tap?: Tap | undefined;
}

/** Sees what passes between one program and the API server, and decides what the program gets of it. */
export interface Tap {
  /**
   * Called when the API server has carried out a write; the program gets the answer once this resolves, and never where
   * that is with true.
   */
  onWritten(write: { readonly method: string; readonly path: string; readonly body: string }): Promise<boolean>;
  /** Called with each event of a watch; returns how often the program gets it. */
  onEvent(plural: string, line: Buffer): number;
}

interface Watch {
  readonly plural: string;
  flush(): void;
  expire(): void;
}

/** What an API server passes on to the helper pod, whose certificate it does not check. */
const TO_HELPER = /^\/api\/v1\/namespaces\/[^/]+\/pods\/https:tenancy-snapshots:8443\/proxy(\/.*)$/;
const MOST_SHOWN = 20;
const HOP_BY_HOP = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade", "accept-encoding"]);

/** Starts a proxy on loopback, which speaks HTTP to its program and HTTPS to the API server. */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const { name, decisions, objects } = options;
  const { server: apiServer, tls, headers: authorization } = readKubeconfig(options.kubeconfigPath);
  const calls = new Agent({ keepAlive: true, ...tls });
  const streams = new Agent({ keepAlive: false, ...tls });
  const toHelper = new Agent({ keepAlive: false, rejectUnauthorized: false });
  const toObjects = new PlainAgent({ keepAlive: true });
  const sockets = new Set<Socket>();
  const watches = new Set<Watch>();
  const hits = new Map<string, number>();
  let writes = 0;
  let written: string[] = [];
  const watchDelayMs = new Map<string, number>();
  const faults: ActiveFaults = {
    refuse: undefined,
    stall: undefined,
    loseAnswer: 0,
    cutAnswer: 0,
  };

  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch(() => outgoing.destroy());
  });
  server.keepAliveTimeout = 120_000;
  server.requestTimeout = 0;
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    const pod = /\/pods\/([^/]+)\/exec$/.exec(pathOf(incoming))?.[1];
    const refused = pod === undefined ? 404 : refusal(incoming);
    if (pod !== undefined && refused === undefined) {
      if (options.onExec === undefined) forwardUpgrade(incoming, { socket, head });
      else options.onExec(pod, incoming, { socket, head });
    } else socket.end(`HTTP/1.1 ${refused} Refused\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const kubeconfigPath = `${options.kubeconfigPath}.${name}`;
  writeFileSync(kubeconfigPath, proxyKubeconfig(name, url), { mode: 0o600 });

  function hit(fault: string): void {
    hits.set(fault, (hits.get(fault) ?? 0) + 1);
  }

  function refusal(incoming: IncomingMessage): number | undefined {
    const { refuse } = faults;
    if (refuse === undefined || !decisions.chance(refuse.probability)) return undefined;
    const status = decisions.pick(refuse.statuses);
    // An API server says that a write conflicts only of an object that is there, and that a list has expired only of
    // its next page.
    const isUpdate = ["PUT", "PATCH", "DELETE"].includes(incoming.method ?? "");
    const isNextPage = /[?&]continue=./.test(incoming.url ?? "");
    const mayConflict = isForObjects(incoming) ? isConditional(incoming) : isUpdate;
    if ((status === 409 && !mayConflict) || (status === 410 && !isNextPage)) return 500;
    return status;
  }

  function isForObjects({ url: path = "" }: IncomingMessage): boolean {
    return objects !== undefined && path.startsWith(`/${objects.bucket}`);
  }

  async function handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await readWhole(incoming);
    const isWatch = /[?&]watch=(1|true)/.test(incoming.url ?? "");
    const refuse = isForObjects(incoming) ? refuseObject : refuseCall;
    if (objects?.isLost && isForObjects(incoming)) {
      hit("object storage lost");
      outgoing.destroy();
      return;
    }
    const { stall } = faults;
    if (stall !== undefined && decisions.chance(stall.probability)) {
      hit("stalled");
      await new Promise((resolve) => setTimeout(resolve, decisions.number() * stall.mostMs));
      if (outgoing.destroyed) return;
    }
    const status = refusal(incoming);
    if (status !== undefined) {
      hit(`answered ${status}`);
      refuse(outgoing, status);
      return;
    }
    if (incoming.method !== "GET" && !/\/(leases|events)\b/.test(incoming.url ?? "")) {
      writes += 1;
      written = [...written, `${incoming.method} ${incoming.url}`].slice(-MOST_SHOWN);
    }
    const isLost = incoming.method !== "GET" && decisions.chance(faults.loseAnswer);
    const isCut = !isWatch && decisions.chance(faults.cutAnswer);
    const forwarded = await forward(incoming, isWatch ? streams : calls);
    if (forwarded === undefined) {
      refuse(outgoing, 503);
      return;
    }
    forwarded.on("error", () => outgoing.destroy());
    forwarded.on("response", async (answer) => {
      answer.on("error", () => outgoing.destroy());
      const { method = "GET", url: path = "/" } = incoming;
      const isWritten = options.tap !== undefined && method !== "GET" && (answer.statusCode ?? 500) < 300;
      const isWithheld = isWritten && (await options.tap?.onWritten({ method, path, body: body.toString("utf8") }));
      if (isLost || isWithheld) {
        hit("answer lost");
        answer.resume();
        answer.on("end", () => outgoing.destroy());
        return;
      }
      const answerHeaders = Object.fromEntries(Object.entries(answer.headers).filter(([key]) => !HOP_BY_HOP.has(key)));
      outgoing.writeHead(answer.statusCode ?? 502, answerHeaders);
      if (isWatch && answer.statusCode === 200) relayWatch(pluralOf(incoming), answer, outgoing);
      else if (isCut) {
        hit("answer cut");
        answer.once("data", (chunk: Buffer) => {
          outgoing.write(chunk.subarray(0, Math.floor(chunk.length / 2)), () => outgoing.destroy());
          answer.resume();
        });
        answer.once("end", () => outgoing.destroy());
      } else answer.pipe(outgoing);
    });
    // A watch ends with its reader; a sent call is executed even if its caller disconnects.
    if (isWatch) outgoing.on("close", () => forwarded.destroy());
    forwarded.end(body);
  }

  /** Begins the request to whom it is for; undefined where that is a helper pod that does not run. */
  async function forward(incoming: IncomingMessage, agent: Agent): Promise<ClientRequest | undefined> {
    const { url: path = "/", method = "GET" } = incoming;
    const kept = Object.fromEntries(Object.entries(incoming.headers).filter(([key]) => !HOP_BY_HOP.has(key)));
    if (objects !== undefined && isForObjects(incoming)) {
      // As it was signed: for the address that the program has asked at.
      const to = new URL(objects.endpoint);
      return requestOverHttp({ hostname: to.hostname, port: to.port, path, method, headers: kept, agent: toObjects });
    }
    const { host: _, authorization: __, ...headers } = kept;
    const helperPath = options.helperPort === undefined ? undefined : TO_HELPER.exec(path)?.[1];
    if (helperPath === undefined) {
      return request(new URL(path, apiServer), { method, headers: { ...headers, ...authorization }, agent });
    }
    const port = await options.helperPort?.();
    if (port === undefined) return undefined;
    return request(new URL(helperPath, `https://127.0.0.1:${port}`), { method, headers, agent: toHelper });
  }

  function forwardUpgrade(incoming: IncomingMessage, { socket, head }: { socket: Duplex; head: Buffer }): void {
    const { host: _, authorization: __, ...headers } = incoming.headers;
    const { method = "GET", url = "/" } = incoming;
    const forwarded = request(new URL(url, apiServer), {
      method,
      headers: { ...headers, ...authorization },
      agent: streams,
    });
    forwarded.on("error", () => socket.destroy());
    forwarded.on("upgrade", (answer, upstream, first) => {
      socket.write(headOf(answer));
      socket.write(first);
      upstream.write(head);
      upstream.on("error", () => socket.destroy());
      upstream.on("close", () => socket.end());
      socket.on("close", () => upstream.destroy());
      upstream.pipe(socket);
      socket.pipe(upstream);
    });
    forwarded.on("response", (answer) => {
      answer.on("error", () => socket.destroy());
      readWhole(answer).then(
        (body) => {
          delete answer.headers["transfer-encoding"];
          answer.headers["content-length"] = String(body.length);
          answer.headers.connection = "close";
          socket.end(Buffer.concat([Buffer.from(headOf(answer)), body]));
        },
        () => socket.destroy(),
      );
    });
    socket.on("close", () => forwarded.destroy());
    forwarded.end();
  }

  /** Relays line by line, in order, each as late as its kind's watches are at that moment. */
  function relayWatch(plural: string, answer: IncomingMessage, outgoing: ServerResponse): void {
    let late: { line: Buffer; dueAt: number }[] = [];
    let timer: NodeJS.Timeout | undefined;
    let rest: Buffer = Buffer.alloc(0);
    outgoing.flushHeaders();
    const release = (isAll: boolean): void => {
      clearTimeout(timer);
      timer = undefined;
      const now = performance.now();
      const due = isAll ? late.length : late.findIndex(({ dueAt }) => dueAt > now);
      const sent = due === -1 ? late : late.slice(0, due);
      late = due === -1 ? [] : late.slice(due);
      // An expired watch has ended, and lines may still come.
      if (sent.length > 0 && !outgoing.destroyed && !outgoing.writableEnded)
        outgoing.write(Buffer.concat(sent.map(({ line }) => line)));
      const next = late[0];
      if (next !== undefined) timer = setTimeout(() => release(false), Math.max(1, next.dueAt - performance.now()));
    };
    const watch: Watch = {
      plural,
      flush: () => release(true),
      expire() {
        const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", ...EXPIRED };
        outgoing.end(`${JSON.stringify({ type: "ERROR", object: status })}\n`);
      },
    };
    watches.add(watch);
    answer.on("data", (chunk: Buffer) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      const end = rest.lastIndexOf(10) + 1;
      if (end === 0) return;
      for (const line of tapped(plural, rest.subarray(0, end))) {
        const delayMs = watchDelayMs.get(plural) ?? 0;
        if (delayMs > 0) hit(`watch of ${plural} delayed`);
        const dueAt = Math.max(performance.now() + delayMs, late.at(-1)?.dueAt ?? 0);
        late.push({ line, dueAt });
      }
      rest = rest.subarray(end);
      if (timer === undefined) release(false);
    });
    answer.on("end", () => {
      release(true);
      outgoing.end();
    });
    outgoing.on("close", () => {
      clearTimeout(timer);
      watches.delete(watch);
    });
  }

  /** What the program gets of whole lines, which a tap sees one by one. */
  function* tapped(plural: string, lines: Buffer): Iterable<Buffer> {
    if (options.tap === undefined) return yield lines;
    for (let from = 0, end = 0; from < lines.length; from = end) {
      end = lines.indexOf(10, from) + 1;
      const line = lines.subarray(from, end);
      for (let times = options.tap.onEvent(plural, line); times > 0; times -= 1) yield line;
    }
  }

  return {
    ...{ name, url, kubeconfigPath, faults, hits, writes: () => writes },
    lastWrites: (most) => written.slice(-most),
    delayWatches(plural, ms) {
      if (ms > 0) {
        watchDelayMs.set(plural, ms);
        return;
      }
      watchDelayMs.delete(plural);
      for (const watch of watches) if (watch.plural === plural) watch.flush();
    },
    cut() {
      hit("connections cut");
      for (const socket of sockets) socket.destroy();
    },
    expireWatches(plural) {
      hit("watches expired");
      for (const watch of watches) if (plural === undefined || watch.plural === plural) watch.expire();
    },
    heal() {
      watchDelayMs.clear();
      faults.refuse = undefined;
      faults.stall = undefined;
      faults.loseAnswer = 0;
      faults.cutAnswer = 0;
      for (const watch of watches) watch.flush();
    },
    close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      calls.destroy();
      toHelper.destroy();
      toObjects.destroy();
      streams.destroy();
      return closed;
    },
  };
}

const EXPIRED = { message: "too old resource version", reason: "Expired", code: 410 };
const REASONS: Readonly<Record<number, string>> = {
  409: "Conflict",
  410: "Expired",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
};

const MESSAGE = "refused by the soak's proxy";

function refuseCall(outgoing: ServerResponse, status: number): void {
  const body = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message: MESSAGE, code: status };
  outgoing.writeHead(status, { "content-type": "application/json", ...(status === 429 && { "retry-after": "1" }) });
  outgoing.end(JSON.stringify({ ...body, reason: REASONS[status] ?? "Unknown" }));
}

const OBJECT_CODES: Readonly<Record<number, string>> = {
  409: "ConditionalRequestConflict",
  429: "TooManyRequests",
  500: "InternalError",
  503: "SlowDown",
};

function refuseObject(outgoing: ServerResponse, status: number): void {
  outgoing.writeHead(status, { "content-type": "application/xml" });
  outgoing.end(`<Error><Code>${OBJECT_CODES[status] ?? "Unknown"}</Code><Message>${MESSAGE}</Message></Error>`);
}

/** Whether a write is to be done only in the place of what its caller has seen. */
function isConditional({ method, headers }: IncomingMessage): boolean {
  return method !== "GET" && ("if-match" in headers || "if-none-match" in headers);
}

function headOf({ statusCode, statusMessage, headers }: IncomingMessage): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join("")}\r\n`;
}

function pathOf({ url = "" }: IncomingMessage): string {
  return url.split("?", 1)[0] ?? "";
}

/** The plural in a path such as `/apis/tenancy.dev/v1alpha1/namespaces/tenancy/tenancyclaims`. */
function pluralOf(incoming: IncomingMessage): string {
  return pathOf(incoming).split("/").at(-1) ?? "";
}

async function readWhole(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function proxyKubeconfig(name: string, server: string): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server } }],
    users: [{ name, user: {} }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    "current-context": name,
  });
}
