import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { claims } from "../../../crds/kinds.ts";
import { eventually } from "../../eventually.ts";
import { active } from "../edge/claim-calls.ts";
import type { Answer, TestEdge } from "../edge/test-edge.ts";

export const ROOT = "the-root-key";

/** Calls the control routes as E2B's SDKs do. */
export function ask(
  edge: TestEdge,
  target: string,
  { key = ROOT, body }: { key?: string; body?: unknown } = {},
): Promise<Answer> {
  const [method, path] = target.split(" ");
  return edge.call(`${method} /e2b${path}`, {
    headers: { "x-api-key": key },
    ...(body !== undefined && { body }),
  });
}

/** Creates a key with these rights, and returns its text. */
export async function keyOf(edge: TestEdge, rights: object): Promise<string> {
  const headers = { authorization: `Bearer ${ROOT}` };
  const { status, json, text } = await edge.call("POST /api/v1/keys", { headers, body: { name: "a key", ...rights } });
  assert.is(status, 201, text);
  return (json as { key: string }).key;
}

/** All claims of the cluster. */
export function allClaims({ cluster }: TestEdge): Claim[] {
  return [...cluster.cache.claims.store.values()];
}

/** Makes the next claim that is created Active, as the operator does, and returns it. */
export async function activateNext(edge: TestEdge): Promise<Claim> {
  const known = new Set(allClaims(edge).map(({ metadata }) => metadata.name));
  const created = () => allClaims(edge).find(({ metadata }) => !known.has(metadata.name));
  await eventually(() => created() !== undefined);
  const { name } = created()?.metadata ?? { name: "" };
  edge.cluster.setStatus(name, { ...active, instanceId: `inst-${name}` });
  edge.cluster.podOf(edge.cluster.claim(name));
  return edge.cluster.read(claims, name);
}

/** Creates a sandbox whose claim becomes Active. */
export async function create(
  edge: TestEdge,
  { key = ROOT, ...body }: { key?: string; templateID?: string } & Record<string, unknown> = {},
): Promise<{ answer: Answer; claim: Claim }> {
  const [answer, claim] = await Promise.all([
    ask(edge, "POST /v2/sandboxes", { key, body: { templateID: "app", ...body } }),
    activateNext(edge),
  ]);
  assert.is(answer.status, 201, answer.text);
  return { answer, claim };
}
