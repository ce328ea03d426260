// @own-cluster
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { openAuthority } from "../../../scripts/cluster/pki/authority.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

/**
 * A webhook that holds the first write that leaves an object without finalizers. The API server calls it while it
 * carries out that write, so it stops just there where another program may end the object first.
 */
interface Gate {
  /** Whether the API server calls the webhook. */
  wasCalled(): boolean;
  /** Holds the next write of this kind; resolves when it is held, with a function that lets it go on. */
  holdNext(): Promise<() => void>;
  stop(): Promise<void>;
}

interface Review {
  readonly request: { readonly uid: string; readonly object: KubernetesObject; readonly oldObject: KubernetesObject };
}

const WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NAME = "holds-the-last-finalizer";

async function startGate({ client }: Tenancy): Promise<Gate> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-gate-"));
  const authority = await openAuthority(folder);
  const { certificate: cert, key } = await authority.issue({
    ...{ fileName: "webhook", commonName: "webhook", purpose: "server", alternativeNames: ["127.0.0.1"] },
  });
  let wasCalled = false;
  let onHeld: ((go: () => void) => void) | undefined;
  const server = createServer({ cert, key }, async (request, response) => {
    const { uid, object, oldObject } = ((await json(request)) as Review).request;
    wasCalled = true;
    const isLast = oldObject.metadata.finalizers !== undefined && !object.metadata.finalizers?.length;
    if (isLast && onHeld !== undefined) {
      const tell = onHeld;
      onHeld = undefined;
      await new Promise<void>((go) => tell(go));
    }
    response.setHeader("content-type", "application/json");
    const answer = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: { uid, allowed: true } };
    response.end(JSON.stringify(answer));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  const { certificate } = authority;
  const rule = { apiGroups: ["tenancy.dev"], apiVersions: ["*"], operations: ["UPDATE"] };
  const webhook = {
    name: "gate.example.com",
    clientConfig: { url: `https://127.0.0.1:${port}/`, caBundle: Buffer.from(certificate).toString("base64") },
    rules: [{ ...rule, resources: ["tenancyclaims", "tenancyworkloads"] }],
    ...{ sideEffects: "None", admissionReviewVersions: ["v1"], timeoutSeconds: 30, failurePolicy: "Fail" },
  };
  const configuration = {
    ...{ apiVersion: "admissionregistration.k8s.io/v1", kind: "ValidatingWebhookConfiguration" },
    ...{ metadata: { name: NAME }, webhooks: [webhook] },
  };
  await client.request({ method: "POST", path: WEBHOOKS, body: JSON.stringify(configuration) });
  return {
    wasCalled: () => wasCalled,
    holdNext: () =>
      new Promise((held) => {
        onHeld = held;
      }),
    async stop() {
      await client.request({ method: "DELETE", path: `${WEBHOOKS}/${NAME}` });
      await new Promise((closed) => server.close(closed));
      rmSync(folder, { recursive: true });
    },
  };
}

const test = suite("an object that two programs end at once");
let tenancy: Tenancy;
let gate: Gate;

test.before(async () => {
  tenancy = await startTenancy("test-ended-twice", { apiServerFlags: ["--watch-cache=false"] });
  tenancy.startOperator();
  gate = await startGate(tenancy);
  await tenancy.createWorkload("app");
  const seen = { namespace: NAMESPACE, name: "app" };
  await tenancy.until("the webhook is called", async () => {
    const body = { metadata: { annotations: { "example.com/at": String(performance.now()) } } };
    await tenancy.client.patch(workloads, seen, { type: "merge", body });
    return gate.wasCalled();
  });
});
test.after(async () => {
  await gate?.stop();
  await tenancy?.stop();
});

test("a late end of a released claim does not end the tenant's next claim, which has its name", async () => {
  const { metadata } = await tenancy.createClaim("alice", "app");
  const { name } = metadata;
  await tenancy.untilClaim(name, { phase: "Active" });
  const held = gate.holdNext();
  await tenancy.deleteClaim(name);
  const go = await held;
  // As another operator does that has read the same state.
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body: withoutFinalizers });
  await tenancy.untilGone(name);
  const next = await tenancy.createClaim("alice", "app");
  go();
  const active = await tenancy.untilClaim(name, { phase: "Active" });
  assert.is(active.metadata.uid, next.metadata.uid);
  await tenancy.release(name);
});

test("a late end of a deleted workload does not end the next workload of that name", async () => {
  await tenancy.createWorkload("next");
  await tenancy.untilWorkload("next", ({ status }) => status?.phase === "Ready");
  const ref = { namespace: NAMESPACE, name: "next" };
  const held = gate.holdNext();
  await tenancy.client.delete(workloads, ref);
  const go = await held;
  await tenancy.client.patch(workloads, ref, { type: "merge", body: withoutFinalizers });
  await tenancy.until("the workload is gone", async () => !(await exists(tenancy.client, workloads, "next")));
  const { metadata } = await tenancy.createWorkload("next");
  go();
  const ready = await tenancy.untilWorkload("next", ({ status }) => status?.phase === "Ready");
  assert.is(ready.metadata.uid, metadata.uid);
});

const withoutFinalizers = { metadata: { finalizers: [] } };

test.run();
