import type { ComponentType } from "preact";
import { mayAct, mayChange, mayGiveKeys, seesService } from "./api/access.ts";
import type { PageParams } from "./route.ts";

/** A page, loaded when it is first shown. */
export interface Page {
  /** Such as `/dashboard/claims/:tenant/:workload`; the named parts become `params`. */
  readonly path: string;
  readonly title: (params: PageParams) => string;
  /** Its label in the navigation, the letter that opens it after `g`, and whether a group begins with it. */
  readonly navigation?: { readonly word: string; readonly letter: string; readonly isFirst?: true };
  /**
   * Who can use it: those who see the service, act on tenants' things, change the service, or give keys and see what
   * was done.
   * @default all who may log in
   */
  readonly of?: "service" | "acts" | "changes" | "keys";
  /** Whether it has nothing to show on an edge without a key. @default false */
  readonly isOfKeys?: true;
  load(): Promise<{ default: ComponentType<{ params: PageParams }> }>;
}

/** In the order of the navigation. Each page renders its own `<h1>`, which gets the focus. */
export const pages: readonly Page[] = [
  {
    path: "/",
    of: "service",
    title: () => "Overview",
    navigation: { word: "Overview", letter: "o" },
    load: () => import("./overview/overview.tsx"),
  },
  {
    path: "/dashboard/claims",
    title: () => "Claims",
    navigation: { word: "Claims", letter: "c", isFirst: true },
    load: () => import("./claims/list.tsx"),
  },
  {
    path: "/dashboard/instances",
    title: () => "Instances",
    navigation: { word: "Instances", letter: "i" },
    load: () => import("./instances/list.tsx"),
  },
  {
    path: "/dashboard/snapshots",
    title: () => "Snapshots",
    navigation: { word: "Snapshots", letter: "s" },
    load: () => import("./snapshots/list.tsx"),
  },
  {
    path: "/dashboard/workloads",
    of: "service",
    title: () => "Workloads",
    navigation: { word: "Workloads", letter: "w", isFirst: true },
    load: () => import("./workloads/list.tsx"),
  },
  {
    path: "/dashboard/pools",
    of: "service",
    title: () => "Pools",
    navigation: { word: "Pools", letter: "p" },
    load: () => import("./pools/list.tsx"),
  },
  {
    path: "/dashboard/triggers",
    of: "service",
    title: () => "Triggers",
    navigation: { word: "Triggers", letter: "t" },
    load: () => import("./triggers/list.tsx"),
  },
  {
    path: "/dashboard/tenants",
    of: "service",
    title: () => "Tenants",
    navigation: { word: "Tenants", letter: "n", isFirst: true },
    load: () => import("./tenants/list.tsx"),
  },
  {
    path: "/dashboard/usage",
    title: () => "Usage",
    navigation: { word: "Usage", letter: "u" },
    load: () => import("./usage/usage.tsx"),
  },
  {
    path: "/dashboard/keys",
    of: "keys",
    isOfKeys: true,
    title: () => "Keys",
    navigation: { word: "Keys", letter: "k" },
    load: () => import("./keys/keys.tsx"),
  },
  {
    path: "/dashboard/audit",
    of: "keys",
    title: () => "Who did what",
    navigation: { word: "Audit", letter: "a" },
    load: () => import("./audit/audit.tsx"),
  },
  {
    path: "/dashboard/claims/:tenant/:workload",
    title: ({ tenant, workload }) => `${workload} of ${tenant}`,
    load: () => import("./claims/one.tsx"),
  },
  {
    path: "/dashboard/workloads/:name",
    of: "service",
    title: ({ name = "" }) => name,
    load: () => import("./workloads/one.tsx"),
  },
  {
    path: "/dashboard/triggers/:name",
    of: "service",
    title: ({ name = "" }) => name,
    load: () => import("./triggers/one.tsx"),
  },
  {
    path: "/dashboard/snapshots/:tenant/:workload",
    title: ({ tenant, workload }) => `Saved versions of ${tenant} in ${workload}`,
    load: () => import("./snapshots/one.tsx"),
  },
  {
    path: "/dashboard/create/claim",
    of: "acts",
    title: () => "Claim a workload",
    load: () => import("./claims/create.tsx"),
  },
  {
    path: "/dashboard/create/:kind",
    of: "changes",
    title: ({ kind }) => `Create ${kind}`,
    load: () => import("./spec/create.tsx"),
  },
  {
    path: "/dashboard/pools/:name",
    of: "service",
    title: ({ name = "" }) => name,
    load: () => import("./pools/one.tsx"),
  },
  {
    path: "/dashboard/_design",
    title: () => "Parts",
    load: () => import("./design/parts.tsx"),
  },
  {
    path: "/dashboard/instances/:name/terminal",
    of: "acts",
    title: ({ name }) => `Terminal of ${name}`,
    load: () => import("./inside/terminal.tsx"),
  },
  {
    path: "/dashboard/instances/:name/files",
    of: "acts",
    title: ({ name }) => `Files of ${name}`,
    load: () => import("./inside/files.tsx"),
  },
  {
    path: "/dashboard/instances/:name/processes",
    of: "acts",
    title: ({ name }) => `Processes of ${name}`,
    load: () => import("./inside/processes.tsx"),
  },
  {
    path: "/dashboard/instances/:name",
    title: ({ name = "" }) => name,
    load: () => import("./instances/one.tsx"),
  },
  {
    path: "/dashboard/tenants/:id",
    title: ({ id }) => `Tenant ${id}`,
    load: () => import("./tenants/one.tsx"),
  },
];

/** The start page of those who reach only some tenants. */
const start: Page = { path: "/", title: () => "Tenants", load: () => import("./tenants/start.tsx") };

const may = { service: seesService, acts: mayAct, changes: mayChange, keys: mayGiveKeys };

/** Whether the page can be used by the caller. */
export function isOpen({ of }: Page): boolean {
  return of === undefined || may[of]();
}

/** The page of a path for the caller: at `/` a choice of tenants for those who do not see the service. */
export function pageFor(page: Page): Page {
  return page.path === "/" && !isOpen(page) ? start : page;
}
