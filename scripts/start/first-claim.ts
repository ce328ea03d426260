import type { Program } from "./program.ts";

const LIMIT_MS = 60_000;

/**
 * Makes the example workload and claims it for tenant `alice` as any client would, by the REST API.
 *
 * @returns what to show a person: the claim's JSON, and lines to paste
 * @throws Error when the edge does not answer within 60 s, a program ends, or the claim fails
 */
export async function firstClaim(options: {
  url: string;
  image: string;
  apiKey: string | undefined;
  programs: Program[];
  signal: AbortSignal;
}): Promise<string> {
  const { url, image, apiKey, programs } = options;
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(LIMIT_MS)]);
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
      network: { access: "none", ports: [8080] },
      // Probed once a second: a kubelet that has just started spreads its first probes over their interval.
      health: { intervalSeconds: 1, httpGet: { path: "/", port: 8080 } },
    },
  };

  const ended = programs.map(({ name, exited }) =>
    exited.then((how) => Promise.reject(new Error(`${name} ended: ${how}`))),
  );
  await Promise.race([untilHealthy(), ...ended]);
  const known = await call("PUT", "/api/v1/workloads/hello", workload);
  if (known.status === 404) await expectOk(await call("POST", "/api/v1/workloads", workload));
  else await expectOk(known);
  const claim = await expectOk(await call("POST", "/api/v1/tenants/alice/claim", { workload: "hello" }));
  const { endpoint } = claim as { endpoint: { host: string; port: number } };
  const key = apiKey === undefined ? "" : ` -H "Authorization: Bearer $TENANCY_API_KEY"`;
  return `
tenant alice claimed workload hello:
${JSON.stringify(claim, null, 2)}

her pod answers:       curl http://${endpoint.host}:${endpoint.port}/
claim for another:     curl ${url}/api/v1/tenants/bob/claim${key} --json '{"workload":"hello"}'
see what is there:     curl ${url}/api/v1/tenants${key}
release:               curl ${url}/api/v1/tenants/alice/release${key} --json '{"workload":"hello"}'`;

  async function untilHealthy(): Promise<void> {
    for (;;) {
      try {
        if ((await fetch(`${url}/api/v1/health`, { signal })).ok) return;
      } catch (cause) {
        if (signal.aborted)
          throw new Error(`The edge does not answer on ${url} after ${LIMIT_MS / 1000} s: see its messages above`, {
            cause,
          });
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  async function call(method: string, path: string, body: unknown): Promise<Response> {
    return fetch(url + path, { method, headers, body: JSON.stringify(body), signal });
  }

  async function expectOk(response: Response): Promise<unknown> {
    const body = (await response.json()) as { error?: string };
    if (!response.ok) throw new Error(`${new URL(response.url).pathname} answered ${response.status}: ${body.error}`);
    return body;
  }
}
