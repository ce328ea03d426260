import * as assert from "uvu/assert";
import { triggers } from "../../crds/kinds.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
import type { TestPage } from "./browser.ts";
import type { Stage } from "./stage.ts";

/** A page of the dashboard and what shows that it is all there. */
export interface Visit {
  /** As `edge/dashboard/pages.ts` has it. */
  readonly path: string;
  /** Its address, of something that is there. */
  readonly at: string;
  readonly heading: string | RegExp;
  /** A text that comes with what the page reads. */
  readonly shows: string | RegExp;
  /** What the browser says of answers that are no success, which the page shows in words. */
  readonly refused?: RegExp;
}

/** Tenants with claims: more than a screen has rows. */
export const TENANTS: readonly string[] = [
  "alice",
  "bob",
  "carol",
  ...Array.from({ length: 37 }, (_, at) => `user-${1001 + at * 7}`),
];

let filled: Promise<Visit[]> | undefined;

/** Makes something of each kind, some of it in trouble, once, and returns a visit to each page. */
export function filledStage(stage: Stage): Promise<Visit[]> {
  filled ??= fillStage(stage);
  return filled;
}

async function fillStage({ tenancy, edge }: Stage): Promise<Visit[]> {
  await tenancy.createWorkload("hello", { network: { ports: [8080] } });
  await tenancy.createWorkload("notes", {
    network: { access: "restricted", ports: [8080] },
    idle: { timeoutSeconds: 1800 },
  });
  await tenancy.createPool("hello", { workloadRef: "hello", size: 4 });
  await tenancy.untilPool("hello", ({ status }) => status?.ready === 4);
  const metadata = { name: "github", namespace: NAMESPACE };
  await tenancy.client.create(triggers, {
    metadata,
    spec: { type: "webhook", workloadRef: "hello", tenant: { from: "owner" }, config: { path: "/hooks/github" } },
  });
  for (const tenantId of TENANTS) {
    const workload = tenantId === "bob" ? "notes" : "hello";
    const answer = await fetch(`${edge.url}/api/v1/tenants/${tenantId}/claim`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ workload }),
    });
    assert.is(answer.status, 201, await answer.text());
  }
  const lost = await tenancy.createClaim("eve", "nothing");
  const { status } = await tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
  await tenancy.untilClaim(lost.metadata.name, { phase: "Error" });
  const instance = status?.instanceId ?? "";
  const list = { heading: /^(Claims|Instances|Workloads|Pools|Triggers|Tenants)$/, shows: /hello|alice|github/ };
  return [
    { path: "/", at: "/", heading: /problem/, shows: "WorkloadNotFound" },
    { ...list, path: "/dashboard/claims", at: "/dashboard/claims" },
    {
      path: "/dashboard/claims/:tenant/:workload",
      at: "/dashboard/claims/alice/hello",
      heading: /hello.*alice/,
      shows: "Active",
    },
    { path: "/dashboard/create/claim", at: "/dashboard/create/claim", heading: "Claim a workload", shows: "Tenant" },
    {
      path: "/dashboard/create/:kind",
      at: "/dashboard/create/workload",
      heading: "Create workload",
      shows: "Image in a registry",
    },
    { ...list, path: "/dashboard/instances", at: "/dashboard/instances" },
    {
      path: "/dashboard/instances/:name",
      at: `/dashboard/instances/${instance}`,
      heading: instance,
      shows: /cannot be reached/,
      // A simulated node runs no container that could print anything: the stream breaks, and the page asks why.
      refused: /status of 5\d\d|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING/,
    },
    ...["terminal", "files", "processes"].map((part) => ({
      path: `/dashboard/instances/:name/${part}`,
      at: `/dashboard/instances/${instance}/${part}`,
      heading: /^(Terminal|Files|Processes) of /,
      // There is nothing in a simulated pod.
      shows: /cannot be reached|Reconnecting|no tools/,
      refused: /status of [45]\d\d|WebSocket connection to/,
    })),
    { path: "/dashboard/_design", at: "/dashboard/_design", heading: /Parts/, shows: "What went wrong" },
    { ...list, path: "/dashboard/workloads", at: "/dashboard/workloads" },
    { path: "/dashboard/workloads/:name", at: "/dashboard/workloads/hello", heading: "hello", shows: "Ready" },
    { ...list, path: "/dashboard/pools", at: "/dashboard/pools" },
    { path: "/dashboard/pools/:name", at: "/dashboard/pools/hello", heading: "hello", shows: "Ready" },
    { ...list, path: "/dashboard/triggers", at: "/dashboard/triggers" },
    { path: "/dashboard/triggers/:name", at: "/dashboard/triggers/github", heading: "github", shows: "/hooks/github" },
    { path: "/dashboard/snapshots", at: "/dashboard/snapshots", heading: "Snapshots", shows: "the page was opened" },
    {
      path: "/dashboard/snapshots/:tenant/:workload",
      at: "/dashboard/snapshots/alice/hello",
      heading: /hello/,
      shows: /Nothing|no snapshot|saved/i,
    },
    { ...list, path: "/dashboard/tenants", at: "/dashboard/tenants", refused: /status of 404/ },
    {
      path: "/dashboard/tenants/:id",
      at: "/dashboard/tenants/alice",
      heading: "alice tenant",
      shows: "no usage is recorded",
      refused: /status of 404/,
    },
    {
      path: "/dashboard/keys",
      at: "/dashboard/keys",
      heading: "Keys",
      shows: "this server has no keys besides TENANCY_API_KEY",
      refused: /status of 404/,
    },
    { path: "/dashboard/audit", at: "/dashboard/audit", heading: "Who did what", shows: "anonymous" },
    {
      path: "/dashboard/usage",
      at: "/dashboard/usage",
      heading: "Usage",
      shows: "no usage is recorded",
      refused: /status of 404/,
    },
  ];
}

/** Opens a page by its address, and waits for what it reads. */
export async function openVisit(
  { page }: TestPage,
  { edge, visit: { path, at, heading, shows } }: { edge: { url: string }; visit: Visit },
): Promise<void> {
  await page.goto(`${edge.url}${at}`);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  await page.getByRole("main").getByText(shows).filter({ visible: true }).first().waitFor();
  // A page that shows no list follows nothing.
  const followsNothing = /\/create\/|\/(usage|keys|audit|_design)$|\/:name\/(terminal|files|processes)$/.test(path);
  if (!followsNothing) await page.getByRole("banner").getByText("live").waitFor();
}

/** What the page complained of meanwhile, but for the answers that a visit expects. */
export function takeComplaints({ takeComplaints }: TestPage, { refused }: Visit): string[] {
  return takeComplaints().filter((words) => refused?.test(words) !== true);
}
