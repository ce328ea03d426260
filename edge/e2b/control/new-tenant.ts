import { randomBytes } from "node:crypto";
import { isTenantId } from "../../../crds/names.ts";
import { quote } from "../../../crds/quote.ts";
import type { Actor } from "../../access/actor.ts";
import { requireTenant } from "../../access/authorize.ts";
import { HttpError } from "../../http/http-error.ts";
import { tenantIdRule } from "../../http/parameters.ts";
import { reachesAll } from "./sandbox-access.ts";

/** The tenant of a new sandbox. */
export interface NewTenant {
  readonly tenantId: string;
  /** Whether it was made for the sandbox, and ends with it. */
  readonly made: boolean;
}

/** https://www.rfc-editor.org/rfc/rfc4648#section-6 in lower case */
const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
const MADE = /(?:^|[^A-Za-z0-9])e2b-[a-z2-7]{16}$/;
const MADE_LENGTH = "e2b-".length + 16;
const LONGEST = 63;

/** Whether an id looks like those that are made for sandboxes. It proves nothing. */
function looksMade(tenantId: string): boolean {
  return MADE.test(tenantId);
}

/**
 * The tenant that a caller names in its metadata, or a new one. A key of exact tenants cannot reach a new one: its
 * sandboxes are of its first tenant.
 *
 * @throws HttpError 400 for an invalid id, 404 for a tenant that the key does not reach, 403 if it reaches none
 */
export function tenantFor(actor: Actor, given: string | undefined): NewTenant {
  if (given !== undefined) return { tenantId: namedTenant(actor, given), made: false };
  if (reachesAll(actor)) return { tenantId: made(""), made: true };
  const { tenants = [] } = actor;
  const start = tenants.find((tenant) => tenant.endsWith("*"))?.slice(0, -1);
  if (start !== undefined) return { tenantId: made(start), made: true };
  const [first] = tenants;
  if (first === undefined) throw new HttpError(403, "this key reaches no tenant");
  return { tenantId: first, made: false };
}

/**
 * Several new tenants, for forks.
 *
 * @throws HttpError 403 if the key reaches only tenants that have a name already
 */
export function newTenants(actor: Actor, count: number): string[] {
  return Array.from({ length: count }, () => {
    const { tenantId, made } = tenantFor(actor, undefined);
    if (made) return tenantId;
    const why = "this key reaches no new tenants, and each fork needs one";
    throw new HttpError(403, `${why}: use a key whose tenants include one that ends with *`);
  });
}

function namedTenant(actor: Actor, tenantId: string): string {
  if (!isTenantId(tenantId))
    throw new HttpError(400, `body.metadata.tenant: ${tenantIdRule.says}, got ${quote(tenantId)}`);
  if (!reachesAll(actor)) requireTenant(actor, tenantId);
  if (!looksMade(tenantId)) return tenantId;
  const why = `${quote(tenantId)} is the tenant of a sandbox`;
  throw new HttpError(400, `body.metadata.tenant: ${why}: connect to the sandbox, or name another tenant`);
}

function made(start: string): string {
  const parted = start === "" || /[^A-Za-z0-9]$/.test(start) ? start : `${start}-`;
  if (parted.length + MADE_LENGTH > LONGEST) {
    const most = LONGEST - MADE_LENGTH - 1;
    throw new HttpError(
      400,
      `this key's tenants begin with ${quote(start)}, which leaves no room for a new id: name one in metadata.tenant, or use a key with a start of at most ${most} characters`,
    );
  }
  return `${parted}e2b-${randomText(16)}`;
}

/** Letters and digits of base32, at random. */
export function randomText(length: number): string {
  return Array.from(randomBytes(length), (byte) => BASE32[byte % 32]).join("");
}
