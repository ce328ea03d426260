import { sign } from "@octokit/webhooks-methods";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { events, secrets } from "../../../crds/client/built-in-resources.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { CoreEvent } from "../../../crds/kubernetes.ts";
import type { Trigger, TriggerSpec, TriggerStatus } from "../../../crds/trigger.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { startActingOperator } from "./acting-operator.ts";
import { type Container, startContainer } from "./container.ts";

export const SECRET = "It's a Secret to Everybody";

/** A real API server, a container that tenants are given, and the operator's part played. */
export interface GatewayEnvironment {
  readonly tenancy: Tenancy;
  readonly container: Container;
  /** What a claim becomes; the default is Active at the container. */
  answer: (claim: Claim, attempt: number) => ClaimStatus | undefined;
  createTrigger(name: string, spec: Partial<TriggerSpec>): Promise<Trigger>;
  editTrigger(name: string, spec: object): Promise<Trigger>;
  deleteTrigger(name: string): Promise<void>;
  statusOf(name: string): Promise<TriggerStatus>;
  /** Waits until a trigger's status, for its newest spec, is as told. */
  untilTrigger(name: string, is: (status: TriggerStatus) => boolean): Promise<TriggerStatus>;
  untilActive(name: string): Promise<TriggerStatus>;
  writeSecret(name: string, data: Record<string, string>): Promise<void>;
  eventsOf(name: string): Promise<CoreEvent[]>;
  active(claim: Claim): ClaimStatus;
  stop(): Promise<void>;
}

export async function startGatewayEnvironment(name: string): Promise<GatewayEnvironment> {
  const tenancy = await startTenancy(name, { nodes: false });
  const container = await startContainer();
  const stopping = new AbortController();
  const { client } = tenancy;
  await tenancy.createWorkload("app");
  const active = ({ metadata: { uid = "" }, spec }: Claim): ClaimStatus => ({
    phase: "Active",
    instanceId: `inst-${uid}`,
    endpoint: { host: container.addressOf(spec.tenantId), port: container.port },
    source: "cold",
  });
  const environment: GatewayEnvironment = {
    tenancy,
    container,
    active,
    answer: active,
    createTrigger: (trigger, spec) =>
      client.create(triggers, {
        metadata: { name: trigger, namespace: NAMESPACE },
        spec: { type: "webhook", workloadRef: "app", tenant: { static: "acme" }, config: {}, ...spec },
      }),
    editTrigger: (trigger, spec) =>
      client.patch(triggers, { namespace: NAMESPACE, name: trigger }, { type: "merge", body: { spec } }),
    async deleteTrigger(trigger) {
      await client.delete(triggers, { namespace: NAMESPACE, name: trigger });
    },
    async statusOf(trigger) {
      return (await client.get(triggers, { namespace: NAMESPACE, name: trigger })).status ?? {};
    },
    untilTrigger: (trigger, is) =>
      tenancy.until(`trigger ${trigger} ${is}`, async () => {
        const { status = {}, metadata } = await client.get(triggers, { namespace: NAMESPACE, name: trigger });
        return status.observedGeneration === metadata.generation && is(status) && status;
      }),
    untilActive: (trigger) => environment.untilTrigger(trigger, ({ phase }) => phase === "Active"),
    async writeSecret(secret, data) {
      await client.apply(
        secrets,
        { metadata: { name: secret, namespace: NAMESPACE }, stringData: data },
        { fieldManager: "test", force: true },
      );
    },
    async eventsOf(trigger) {
      const { items } = await client.list(events, { namespace: NAMESPACE });
      return items.filter(({ involvedObject }) => involvedObject.name === trigger);
    },
    async stop() {
      stopping.abort();
      await container.stop();
      await tenancy.stop();
    },
  };
  await startActingOperator({
    client,
    namespace: NAMESPACE,
    answers: (claim, attempt) => environment.answer(claim, attempt),
    signal: stopping.signal,
  });
  return environment;
}

/** What a sender of webhooks got. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  readonly error: string | undefined;
}

/** Sends a delivery as GitHub does; an object goes as JSON, and is signed where there is a secret. */
export async function deliver(
  url: string,
  body: unknown,
  options: { secret?: string; id?: string; headers?: Record<string, string>; method?: string } = {},
): Promise<Answer> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await fetch(url, {
    method: options.method ?? "POST",
    headers: {
      "content-type": "application/json",
      ...(options.secret !== undefined && { "x-hub-signature-256": await sign(options.secret, text) }),
      ...(options.id !== undefined && { "x-github-delivery": options.id }),
      ...options.headers,
    },
    ...((options.method ?? "POST") === "POST" && { body: text }),
  });
  const answer = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") ?? false;
  const json = isJson && answer !== "" ? (JSON.parse(answer) as { error?: string }) : undefined;
  return { status: response.status, text: answer, headers: response.headers, error: json?.error };
}
