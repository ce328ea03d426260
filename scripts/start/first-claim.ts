import { orAborted } from "../../crds/waits.ts";
import { pause } from "../cluster/process/wait-until.ts";
import type { Program } from "./program.ts";

const HEALTHY_LIMIT_MS = 60_000;
/** On a slow machine the first pod takes longer than one claim call waits. */
const CLAIM_LIMIT_MS = 300_000;
/** What a claim answers that goes on. */
const STILL_GOING = 504;
const RETRY_MS = 200;

/**
 * Makes the example workload and claims it for tenant `alice` as any client would, by the REST API.
 *
 * @returns what to show a person: the claim's JSON, and lines to paste
 * @throws Error when the edge does not listen within 60 s, a program ends, the claim fails, or its pod is not there
 *   within 5 minutes
 */
export async function firstClaim(options: {
  /** Of the programs, the one that serves the API. */
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
      // Probed once a second: a kubelet that has just started spreads its first probes over their interval.
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

  /** Another program that has the address would answer at once, for another cluster. */
  async function untilListening(): Promise<string> {
    try {
      return await orAborted(edge.listening, within(HEALTHY_LIMIT_MS));
    } catch (cause) {
      options.signal.throwIfAborted();
      throw new Error(`The edge does not listen after ${HEALTHY_LIMIT_MS / 1000} s: see its messages above`, { cause });
    }
  }

  /** What a browser opens: a link, and without a key the plain address; undefined where there is no front door. */
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
      // The edge answers before all of the cluster is in its view, and says when to ask again.
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
