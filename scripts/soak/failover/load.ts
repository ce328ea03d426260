import { Agent, request } from "node:http";
import { pause } from "../../cluster/process/wait-until.ts";

/** What one tenant of the load saw. */
export interface Acknowledged {
  readonly tenantId: string;
  readonly instanceId: string;
}

/** Claims and releases from outside, over connections that are kept, as a platform does that calls either replica. */
export interface Load {
  /** Times of completed claims, by `performance.now`. */
  readonly claims: readonly number[];
  /** Calls that were made again, by what the try before saw. */
  readonly retries: ReadonlyMap<string, number>;
  /** Calls that no try completed. */
  readonly failures: readonly string[];
  stop(): Promise<void>;
}

const TENANTS = 6;
const RETRY_MS = 100;
const TRY_LIMIT_MS = 40_000;

/**
 * Tenants that claim and release one after the other, each for itself.
 *
 * @param options.limitMs how long a call is made again before it has failed
 * @param options.check is told of every claim that was answered with 201 before it is released, and throws where it is
 *   not so
 */
export function startLoad(options: {
  urls: readonly string[];
  workload: string;
  limitMs: number;
  check(claim: Acknowledged): Promise<void>;
}): Load {
  const { urls, workload, limitMs, check } = options;
  const claims: number[] = [];
  const retries = new Map<string, number>();
  const failures: string[] = [];
  const stopping = new AbortController();
  const agent = new Agent({ keepAlive: true });
  let round = 0;

  /** Makes the call of one replica after the other until one completes it. */
  async function call(path: string, body: object, isDone: (status: number) => boolean): Promise<unknown> {
    const end = performance.now() + limitMs;
    for (let tries = round++; ; tries += 1) {
      const url = urls[tries % urls.length] ?? "";
      const answer = await post(`${url}${path}`, body).catch((error: NodeJS.ErrnoException) => ({
        status: 0,
        text: error.code ?? error.message,
      }));
      if (isDone(answer.status)) return JSON.parse(answer.text);
      const seen = answer.status === 0 ? answer.text : String(answer.status);
      retries.set(seen, (retries.get(seen) ?? 0) + 1);
      if (performance.now() > end) throw new Error(`POST ${path}: ${seen} ${answer.text}`);
      await pause(RETRY_MS);
    }
  }

  function post(url: string, body: object): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const sent = request(
        url,
        { method: "POST", agent, headers: { "content-type": "application/json" }, timeout: TRY_LIMIT_MS },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (part) => (text += part));
          response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
          response.once("error", reject);
        },
      );
      sent.once("timeout", () => sent.destroy(new Error("no answer")));
      sent.once("error", reject);
      sent.end(JSON.stringify(body));
    });
  }

  async function live(tenantId: string): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const path = `/api/v1/tenants/${tenantId}`;
        const claim = (await call(`${path}/claim`, { workload }, (status) => status === 201)) as Acknowledged;
        claims.push(performance.now());
        await check({ tenantId, instanceId: claim.instanceId });
        // One that was carried out, and whose answer was lost, finds nothing the second time.
        await call(`${path}/release?wait=true`, { workload }, (status) => status === 200 || status === 404);
      } catch (error) {
        failures.push(`${tenantId}: ${error instanceof Error ? error.message : error}`);
      }
    }
  }

  const living = Promise.all(Array.from({ length: TENANTS }, (_, index) => live(`tenant-${index}`)));
  return {
    ...{ claims, retries, failures },
    async stop() {
      stopping.abort();
      await living;
      agent.destroy();
    },
  };
}
