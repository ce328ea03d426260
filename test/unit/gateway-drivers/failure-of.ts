import { DriverError, type DriverReply } from "../../../edge/gateway/drivers/driver.ts";

/** The DriverError that a call ends with. @throws Error when it ends otherwise */
export async function failureOf(call: Promise<DriverReply>): Promise<DriverError> {
  const error: unknown = await call.then(
    ({ text }) => new Error(`answered: ${text}`),
    (reason: unknown) => reason,
  );
  if (error instanceof DriverError) return error;
  throw error;
}
