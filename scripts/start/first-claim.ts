import { orAborted } from "../../crds/waits.ts";
import { pause } from "../cluster/process/wait-until.ts";
import type { Program } from "./program.ts";

const HEALTHY_LIMIT_MS = 60_000;
/** On a slow machine the first pod takes longer than one claim call waits. */
const CLAIM_LIMIT_MS = 300_000;
/** The response to a claim call whose claim is not Active yet. */
const STILL_GOING = 504;
const RETRY_MS = 200;

/**
 * Creates the example workload and claims it for tenant `alice` with the REST API, like any client.
 *
 * @returns text for a person: the claim's JSON, and lines to paste
 * @throws Error if the edge does not listen within 60 s, a program ends, the claim fails, or its pod is not ready
 * within
 *   5 minutes
 */
export async function firstClaim(options: {
  /** The program that serves the API. */
  edge: Program;
  image: string;
  apiKey: string | undefined;
  programs: Program[];
  signal: AbortSignal;
}): Promise<string> {
  const { edge, image, apiKey, programs } = options;
  const within = (limitMs: number) => AbortSignal.any([options.signal, AbortSignal.timeout(limitMs)]);
  const headers = {
    "content-type": "application/json",
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  };
  const workload = {
    name: "hello",
    spec: {
      version: "1",
      image: { ref: image },
      resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
      network: { access: "none", ports: [8080], expose: "link" },
      // It is probed once a second, since a new kubelet spreads its first probes over their interval.
      health: { intervalSeconds: 1, httpGet: { path: "/", port: 8080 } },
    },
  };

  const ended = programs.map(({ name, exited }) =>
    exited.then((how) => Promise.reject(new Error(`${name} ended: ${how}`))),
  );
  const url = await Promise.race([untilListening(), ...ended]);
  const known = await call("PUT", "/api/v1/workloads/hello", workload);
  if (known.status === 404) await expectOk(await call("POST", "/api/v1/workloads", workload));
  else await expectOk(known);
  const claim = await expectOk(await claimAlice());
  const { endpoint } = claim as { endpoint: { host: string; port: number } };
  const address = await aliceAddress();
  const key = apiKey === undefined ? "" : ` -H "Authorization: Bearer $TENANCY_API_KEY"`;
  return `
tenant alice claimed workload hello:
${JSON.stringify(claim, null, 2)}

the dashboard:         ${url}/${address === undefined ? "" : `\nalice's instance:      ${address}`}
her pod itself:        curl http://${endpoint.host}:${endpoint.port}/
claim for another:     curl ${url}/api/v1/tenants/bob/claim${key} --json '{"workload":"hello"}'
see what is there:     curl ${url}/api/v1/tenants${key}
release:               curl ${url}/api/v1/tenants/alice/release${key} --json '{"workload":"hello"}'`;

  /**
   * Waits for the edge's own message. A request to the address could reach another program, which serves another
   * cluster.
   */
  async function untilListening(): Promise<string> {
    try {
      return await orAborted(edge.listening, within(HEALTHY_LIMIT_MS));
    } catch (cause) {
      options.signal.throwIfAborted();
      throw new Error(`The edge does not listen after ${HEALTHY_LIMIT_MS / 1000} s: see its messages above`, { cause });
    }
  }

  /** The address for a browser: a link, or without a key the plain address. Undefined without a front door. */
  async function aliceAddress(): Promise<string | undefined> {
    const response = await call("POST", "/api/v1/tenants/alice/links", { workload: "hello" });
    if (response.status === 409) return undefined;
    const { url: link } = (await expectOk(response)) as { url: string };
    return apiKey === undefined ? link.replace(/\?.*/, "") : link;
  }

  async function claimAlice(): Promise<Response> {
    const signal = within(CLAIM_LIMIT_MS);
    for (;;) {
      const response = await call("POST", "/api/v1/tenants/alice/claim", { workload: "hello" }, signal);
      if (response.status !== STILL_GOING) return response;
      await response.body?.cancel();
    }
  }

  async function call(
    method: string,
    path: string,
    body: unknown,
    signal = within(HEALTHY_LIMIT_MS),
  ): Promise<Response> {
    const endsAt = Date.now() + HEALTHY_LIMIT_MS;
    for (;;) {
      const response = await fetch(url + path, { method, headers, body: JSON.stringify(body), signal });
      // The edge responds before its caches are synced, and says when to retry.
      const isEarly = response.status === 503 && response.headers.has("retry-after");
      if (!isEarly || Date.now() > endsAt) return response;
      await response.body?.cancel();
      await pause(RETRY_MS);
    }
  }

  async function expectOk(response: Response): Promise<unknown> {
    const body = (await response.json()) as { error?: string };
    if (!response.ok) throw new Error(`${new URL(response.url).pathname} answered ${response.status}: ${body.error}`);
    return body;
  }
}
