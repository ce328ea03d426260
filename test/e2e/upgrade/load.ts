import { createHash, randomBytes } from "node:crypto";
import { type Agent, request } from "node:http";
import { WebSocket } from "ws";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";

/** What clients of the platform saw while they asked for something all the time. */
export interface Load {
  /** Requests that were not answered as the API says. */
  readonly failures: string[];
  /** By name: how often. */
  readonly counts: Record<string, number>;
  /** The longest call of each name, in milliseconds. */
  readonly longestMs: Record<string, number>;
  /** How often each client has gone round without a failure. */
  readonly rounds: Record<string, number>;
  /** Starts a client that goes round until the load ends. */
  start(name: string, round: () => Promise<void>): void;
  /** A call of the API or of an instance; what is not expected is a failure. */
  call(name: string, options: Call): Promise<Answer>;
  /** Ends every client behind its present round. */
  end(): Promise<void>;
}

interface Call {
  readonly url: string;
  readonly method?: string;
  readonly body?: Buffer | string;
  /** @default a connection of its own */
  readonly agent?: Agent;
  /** @default 200 and 201 */
  readonly expected?: readonly number[];
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** Between two rounds of a client, since the cluster and all clients share one machine. */
const PAUSE_MS = 200;

/** Ends the round of a client whose call has failed; the load has the reason. */
class CallFailed extends Error {}

/** @param headers of every call. Default: none */
export function createLoad(headers: Readonly<Record<string, string>> = {}): Load {
  const ending = new AbortController();
  const clients: Promise<void>[] = [];
  const load: Load = {
    failures: [],
    counts: {},
    longestMs: {},
    rounds: {},
    start(name, round) {
      load.rounds[name] = 0;
      const client = async (): Promise<void> => {
        while (!ending.signal.aborted) {
          try {
            await round();
            load.rounds[name] = (load.rounds[name] ?? 0) + 1;
          } catch (error) {
            if (!(error instanceof CallFailed)) load.failures.push(`${name}: ${error}`);
          }
          await pause(PAUSE_MS, ending.signal);
        }
      };
      clients.push(client());
    },
    async call(name, options) {
      const { expected = [200, 201] } = options;
      const from = performance.now();
      const problem = await ask(options, headers).then(
        (answer) => (expected.includes(answer.status) ? answer : `${answer.status} ${answer.body}`),
        (error: unknown) => String(error),
      );
      const ms = Math.round(performance.now() - from);
      load.counts[name] = (load.counts[name] ?? 0) + 1;
      load.longestMs[name] = Math.max(load.longestMs[name] ?? 0, ms);
      if (typeof problem === "object") return problem;
      load.failures.push(`${name}: ${options.method ?? "GET"} ${options.url} after ${ms} ms: ${problem}`);
      throw new CallFailed(problem);
    },
    async end() {
      ending.abort();
      await Promise.all(clients);
    },
  };
  return load;
}

function ask({ url, method = "GET", body, agent }: Call, more: Readonly<Record<string, string>>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = {
      ...more,
      ...(typeof body === "string" && { "content-type": "application/json" }),
      "content-length": Buffer.byteLength(body ?? ""),
    };
    const sent = request(url, { method, headers, agent: agent ?? false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Claims, and releases to the end, where a call has to be made again after its 30 s. */
export interface Sessions {
  /** Whether a save may fail, to be tried again by itself. @default false */
  savesMayFail: boolean;
  /** Resolves with the instance and its address. */
  claim(tenant: string, workload: string, more?: object): Promise<{ instance: string; url: string }>;
  release(tenant: string, workload: string): Promise<void>;
}

export function createSessions(load: Load, api: string): Sessions {
  /** 504: it goes on, and the call is to be made again; a release that has ended since then is not found. */
  async function patiently(name: "claim" | "release", url: string, body: string): Promise<Answer> {
    for (let expected = [200, 201, 504]; ; expected = name === "release" ? [200, 404, 504] : expected) {
      const all = sessions.savesMayFail ? [...expected, 500] : expected;
      const answer = await load.call(name, { url, method: "POST", body, expected: all });
      if (answer.status < 500) return answer;
      const why = answer.status === 504 ? "30 s" : "a save that failed";
      if (answer.status === 500) {
        if (!answer.body.includes("the files could not be saved")) throw new Error(`${name} got ${answer.body}`);
        await pause(PAUSE_MS);
      }
      load.counts[`${name}, again after ${why}`] = (load.counts[`${name}, again after ${why}`] ?? 0) + 1;
    }
  }
  const sessions: Sessions = {
    savesMayFail: false,
    async claim(tenant, workload, more = {}) {
      const body = JSON.stringify({ workload, ...more });
      const answer = await patiently("claim", `${api}/api/v1/tenants/${tenant}/claim`, body);
      const { instanceId, endpoint } = JSON.parse(answer.body.toString()) as {
        instanceId: string;
        endpoint: { host: string; port: number };
      };
      return { instance: instanceId, url: `http://${endpoint.host}:${endpoint.port}` };
    },
    async release(tenant, workload) {
      const body = JSON.stringify({ workload });
      await patiently("release", `${api}/api/v1/tenants/${tenant}/release?wait=true`, body);
    },
  };
  return sessions;
}

/** Files of tenants: what each saved, by SHA-256, and the checks that all of it is there. */
export interface Files {
  /** Claims with the data, checks every file that was ever saved, adds one, and releases. */
  round(tenant: string): Promise<void>;
  /** How many files are known, and how many of them were read back. */
  readonly saved: number;
  readonly checked: number;
}

export function createFiles(load: Load, sessions: Sessions): Files {
  const known = new Map<string, Map<string, string>>();
  let checked = 0;
  return {
    async round(tenant) {
      const files = known.get(tenant) ?? new Map<string, string>();
      known.set(tenant, files);
      const { url } = await sessions.claim(tenant, "notes", { resume: true });
      const listed = (await load.call("list of files", { url: `${url}/` })).body.toString();
      const names = listed.split("\n").filter((name) => name !== "");
      const lost = [...files.keys()].filter((name) => !names.includes(name));
      if (lost.length > 0) load.failures.push(`${tenant} has lost ${lost.join(", ")} and has ${names.join(", ")}`);
      for (const name of names) {
        const { body } = await load.call("file", { url: `${url}/${name}` });
        checked += 1;
        if (sha256(body) !== files.get(name)) load.failures.push(`${tenant}: ${name} has changed`);
      }
      const name = `file-${files.size}`;
      const content = randomBytes(1 + Math.floor(Math.random() * 65_536));
      await load.call("write", { url: `${url}/${name}`, method: "PUT", body: content });
      files.set(name, sha256(content));
      await sessions.release(tenant, "notes");
    },
    get saved() {
      return [...known.values()].reduce((sum, files) => sum + files.size, 0);
    },
    get checked() {
      return checked;
    },
  };
}

function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

/** A client of `/ws` that comes back whenever it is told to. */
export interface Watcher {
  /** What each connection was closed with. */
  readonly codes: number[];
  /** Says that the instance was given out between two moments, by `performance.now()`. */
  expect(instance: string, from: number): void;
  /** Instances that were neither told nor given out while the client was without a connection. */
  missed(): string[];
  /** How many events came. */
  readonly events: number;
  end(): void;
}

/** A replica may tell what another has answered already somewhat later. */
const LATE_MS = 10_000;

export function startWatcher(url: string): Watcher {
  const told = new Set<string>();
  const expected = new Map<string, { from: number; to: number }>();
  const gaps: { from: number; to: number }[] = [];
  const codes: number[] = [];
  let events = 0;
  let lastId: string | undefined;
  let ended = false;
  let socket: WebSocket;

  function open(gap: { from: number; to: number }): void {
    gaps.push(gap);
    socket = new WebSocket(`${url.replace("http", "ws")}/ws${lastId === undefined ? "" : `?since=${lastId}`}`);
    let isOpen = false;
    socket.on("error", () => undefined);
    socket.on("open", () => {
      isOpen = true;
      socket.send("ping");
    });
    socket.on("message", (data) => {
      const { id, type, object } = JSON.parse(String(data)) as {
        id: string;
        type: string;
        object?: { instanceId?: string };
      };
      lastId = id;
      // From the first answer on nothing is left out.
      if (type === "pong") gap.to = Math.min(gap.to, performance.now());
      if (object?.instanceId === undefined) return;
      events += 1;
      told.add(object.instanceId);
    });
    socket.on("close", (code) => {
      if (ended) return;
      if (isOpen) codes.push(code);
      setTimeout(() => open(isOpen ? { from: performance.now() - 250, to: Number.POSITIVE_INFINITY } : gap), 250);
    });
  }
  open({ from: performance.now(), to: Number.POSITIVE_INFINITY });

  return {
    codes,
    expect: (instance, from) => void expected.set(instance, { from, to: performance.now() + LATE_MS }),
    missed() {
      return [...expected].flatMap(([instance, { from, to }]) =>
        told.has(instance) || gaps.some((gap) => gap.from <= to && gap.to >= from) ? [] : [instance],
      );
    },
    get events() {
      return events;
    },
    end() {
      ended = true;
      socket.terminate();
    },
  };
}
