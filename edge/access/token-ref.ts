import { hash } from "node:crypto";
import type { Actor } from "./actor.ts";

/** `<first letter of the kind>-<settings>-<end in seconds, base 36>-<digest>`; keys have no such `ref`. */
const REF = /^[ps]-([0-9a-f]{16})-([0-9a-z]{6,8})-[0-9a-f]{16}$/;

/**
 * The `ref` of a token's actor. It holds its own end, since no process stores tokens for others: what a token has
 * given, such as a link, ends at the latest with the token, or with a change of the settings.
 *
 * @param settings 16 hexadecimal digits that differ where the settings differ which decide what a token allows
 */
export function tokenRef(
  { kind, id, role, tenants, mayClaim }: Pick<Actor, "kind" | "id" | "role" | "tenants" | "mayClaim">,
  { settings, endsAt }: { settings: string; endsAt: number },
): string {
  const digest = hash("sha256", JSON.stringify([kind, id, role, tenants, mayClaim])).slice(0, 16);
  return `${kind[0]}-${settings}-${Math.floor(endsAt / 1000).toString(36)}-${digest}`;
}

/** Whether what a `ref` has asked for is still valid; undefined for the `ref` of a key. */
export function holdsTokenRef(
  ref: string,
  { settings, now }: { settings: readonly string[]; now: number },
): boolean | undefined {
  const [, of] = REF.exec(ref) ?? [];
  const endsAt = tokenEnd(ref);
  if (of === undefined || endsAt === undefined) return undefined;
  return settings.includes(of) && endsAt > now;
}

/** When the token with a `ref` ends, in milliseconds since the epoch; undefined for the `ref` of a key. */
export function tokenEnd(ref: string): number | undefined {
  const [, , end] = REF.exec(ref) ?? [];
  return end === undefined ? undefined : Number.parseInt(end, 36) * 1000;
}
