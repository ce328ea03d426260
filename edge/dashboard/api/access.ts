import { signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** What the caller may do, as its session says. The API decides; the page only does not offer what it would refuse. */
export interface Access {
  readonly role: NonNullable<ApiTypes["Session"]["role"]>;
  /** Ids of the tenants that it reaches, or the start of ids before a `*`. Undefined for all. */
  readonly tenants: readonly string[] | undefined;
}

/** Undefined until somebody is logged in; it stays while a session that ended is renewed. */
export const access = signal<Access | undefined>(undefined);

/** Whether workloads, pools, triggers and lists of all tenants can be read. */
export function seesService(): boolean {
  return access.value?.tenants === undefined && access.value?.role !== "tenant";
}

/** Whether tenants' things can be used: claims, files, processes, logs. */
export function mayAct(): boolean {
  return access.value?.role !== "reader";
}

/** Whether workloads, pools and triggers can be changed. */
export function mayChange(): boolean {
  return access.value?.role === "admin" || access.value?.role === "platform";
}

/** Whether keys can be created and deleted. */
export function mayGiveKeys(): boolean {
  return access.value?.role === "admin";
}

/** Tenants that were opened by their id, since the caller's access names only the start of their ids. */
const OPENED = "tenants";

/** The tenants that lists are read for, one by one; undefined if a list of all can be read. */
export function listedTenants(): readonly string[] | undefined {
  const { tenants } = access.value ?? {};
  if (tenants === undefined) return undefined;
  return [...new Set([...tenants.filter(isId), ...opened().filter((id) => reaches(tenants, id))])];
}

/** Adds a tenant to those that lists are read for. @returns whether it was not one of them */
export function openTenant(id: string): boolean {
  const { tenants } = access.value ?? {};
  if (tenants === undefined || !reaches(tenants, id) || listedTenants()?.includes(id)) return false;
  try {
    sessionStorage.setItem(OPENED, JSON.stringify([...opened(), id]));
    return true;
  } catch (error) {
    console.debug("no storage", error);
    return false;
  }
}

function opened(): string[] {
  try {
    return JSON.parse(sessionStorage.getItem(OPENED) ?? "[]") as string[];
  } catch {
    // No storage is allowed.
    return [];
  }
}

export function isId(entry: string): boolean {
  return !entry.endsWith("*");
}

/** @param tenants ids, or the start of ids before a `*` */
export function reaches(tenants: readonly string[], id: string): boolean {
  return tenants.some((one) => (isId(one) ? id === one : id.startsWith(one.slice(0, -1))));
}
