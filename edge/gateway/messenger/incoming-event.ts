import type { TriggerSpec } from "../../../crds/trigger.ts";
import type { IncomingEvent } from "../adapter.ts";
import { resolveTenant } from "../resolve-tenant.ts";
import type { BotUpdate } from "./read-update.ts";

/**
 * What the pipeline gets of an update.
 *
 * Names are compared without case by the messenger, so they come in lower case: one person is one tenant however the name is
 * written. A name can be given up and taken by another person, an id cannot (docs/decisions/745-tenant-of-a-message.md).
 */
export function incomingEvent(update: BotUpdate, options: { botId: string; receivedAt: string }): IncomingEvent {
  const { text, data, updateId } = update;
  return {
    id: `${options.botId}-${updateId}`,
    fields: fieldsOf(update),
    text,
    data,
    receivedAt: options.receivedAt,
  };
}

/** Whose the update is; undefined where it is nobody's, or all are one tenant's. */
export function tenantOf(update: BotUpdate, tenant: TriggerSpec["tenant"]): string | undefined {
  if (tenant.static !== undefined) return undefined;
  const resolved = resolveTenant(tenant, fieldsOf(update));
  return "tenantId" in resolved ? resolved.tenantId : undefined;
}

function fieldsOf({ chatId, userId, username }: BotUpdate): object {
  const usernameOrId = username === undefined || username === "" ? userId : username.toLowerCase();
  return { chatId, userId, usernameOrId };
}
