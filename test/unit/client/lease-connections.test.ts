// @runtimes bun node deno
// @waits
import { test } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { holdLease } from "../../../crds/client/hold-lease.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { Lease } from "../../../crds/kubernetes.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { silentLog } from "../silent-log.ts";
import { answerJson, type FakeRequest, startFakeApiServer } from "./fake-api-server.ts";

/** More than there are connections for calls. */
const STALLED = 100;
const RENEWALS = 3;

/** A server with one Lease, which never answers anything about pods. */
async function startStallingServer() {
  let lease: Lease | undefined;
  let version = 0;
  let renewals = 0;
  const server = await startFakeApiServer(({ method, path, query, body }: FakeRequest, response) => {
    if (!path.includes("/leases")) return;
    if (query.has("watch")) {
      response.writeHead(200, { "content-type": "application/json" });
      response.flushHeaders();
    } else if (method === "GET" && path.endsWith("/leases")) {
      answerJson(response, { metadata: { resourceVersion: "1" }, items: [] });
    } else if (method === "GET") {
      if (lease === undefined) answerJson(response, { reason: "NotFound", message: "no lease" }, { status: 404 });
      else answerJson(response, lease);
    } else {
      const [sent, kept] = [JSON.parse(body) as Lease, method === "PATCH" ? lease : undefined];
      if (kept !== undefined) renewals += 1;
      version += 1;
      const metadata = { ...kept?.metadata, ...sent.metadata, uid: "lease", resourceVersion: String(version) };
      lease = { metadata, spec: { ...kept?.spec, ...sent.spec } };
      answerJson(response, lease, { status: method === "POST" ? 201 : 200 });
    }
  });
  return { server, renewals: () => renewals, lease: () => lease };
}

test("holdLease renews while more calls than there are connections wait for an answer that never comes", async () => {
  const { server, renewals } = await startStallingServer();
  const transport = createTransport({ config: { server: server.url } });
  const client = createClusterClient({ transport });
  const cut = new AbortController();
  const stop = new AbortController();
  const { signal } = cut;
  const stalled = Array.from({ length: STALLED }, (_, index) =>
    client.get(pods, { namespace: "a", name: `p${index}` }, { signal, timeoutMs: 600_000 }).catch(() => undefined),
  );
  try {
    // Deno and Bun bound connections in their own ways.
    await waitUntil(() => server.requests.length >= 16, { what: "calls that wait", limitMs: 60_000, intervalMs: 2 });
    await holdLease({
      client,
      namespace: "a",
      leaseName: "leader",
      identity: "me",
      leaseMs: 4000,
      log: silentLog,
      signal: stop.signal,
      async hold() {
        await waitUntil(() => renewals() >= RENEWALS, { what: "renewals", limitMs: 40_000, intervalMs: 5 });
      },
    });
  } finally {
    stop.abort();
    cut.abort();
    await Promise.all(stalled);
    transport.close();
    await server.close();
  }
});

test("holdLease leaves alone what others have written, whatever version it knows", async () => {
  const { server, renewals, lease } = await startStallingServer();
  const transport = createTransport({ config: { server: server.url } });
  const hold = async () => {
    // As in a cluster restored from a backup, where another operator's write has the same resourceVersion again.
    Object.assign(lease()?.metadata ?? {}, { annotations: { from: "another" } });
    await waitUntil(() => renewals() >= 1, { what: "a renewal", limitMs: 40_000, intervalMs: 5 });
  };
  const where = { namespace: "a", leaseName: "leader", identity: "me", leaseMs: 4000 };
  const client = createClusterClient({ transport });
  try {
    await holdLease({ ...where, client, hold, log: silentLog, signal: new AbortController().signal });
  } finally {
    transport.close();
    await server.close();
  }
  assert.equal(lease()?.metadata.annotations, { from: "another" });
  assert.is(lease()?.spec?.holderIdentity, "");
});

test.run();
