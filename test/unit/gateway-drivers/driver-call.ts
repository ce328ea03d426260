import {
  type DriverCall,
  DriverError,
  type DriverReply,
  type TriggerPayload,
} from "../../../edge/gateway/drivers/driver.ts";

export const payload: TriggerPayload = {
  id: "evt-1",
  trigger: "inbox",
  source: "webhook",
  tenantId: "Dave",
  data: { subject: "héllo 🙂" },
  receivedAt: "2026-01-01T00:00:00.000Z",
};
/** The same with a text. */
export const prompted = { ...payload, text: "héllo 🙂" };

/** What drivers are told of a pod that stays as it is. */
export const confirm = async (): Promise<void> => undefined;

/** A call of a driver to a container on this machine. */
export function callTo(port: number, options: Partial<DriverCall> & { host?: string } = {}): DriverCall {
  const { host = "127.0.0.1", signal = new AbortController().signal, ...more } = options;
  return { payload, endpoint: { host, port }, options: undefined, signal, confirm, ...more };
}

/** The DriverError that a call ends with. @throws Error when it ends otherwise */
export async function failureOf(call: Promise<DriverReply>): Promise<DriverError> {
  const error: unknown = await call.then(
    ({ text }) => new Error(`answered: ${text}`),
    (reason: unknown) => reason,
  );
  if (error instanceof DriverError) return error;
  throw error;
}
