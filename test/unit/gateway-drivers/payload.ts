import type { TriggerPayload } from "../../../edge/gateway/drivers/driver.ts";

export const payload: TriggerPayload = {
  id: "evt-1",
  trigger: "inbox",
  source: "webhook",
  tenantId: "Dave",
  data: { subject: "héllo 🙂" },
  receivedAt: "2026-01-01T00:00:00.000Z",
};

/** What drivers are told of a pod that stays as it is. */
export const confirm = async (): Promise<void> => undefined;
