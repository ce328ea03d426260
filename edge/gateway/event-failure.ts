import { ReleasedMeanwhile } from "../api/claims/claim-tenant.ts";
import { HttpError } from "../http/http-error.ts";
import { DriverError } from "./drivers/driver.ts";

/** How a failure is told to an event's source, without internals, and to the trigger's owner. */
export interface EventFailure {
  /** The status that fits it where the source speaks HTTP. */
  readonly status: 502 | 503 | 504;
  /** For the source. */
  readonly message: string;
  /** For the owner: what failed and, where it is known, why. */
  readonly detail: string;
}

/** Tells what a failed claim or exchange comes to. */
export function eventFailure(error: unknown): EventFailure {
  if (error instanceof DriverError) {
    const isLate = error.cause instanceof Error && error.cause.name === "TimeoutError";
    return isLate
      ? { status: 504, message: "the container did not answer in time", detail: error.message }
      : { status: 502, message: "the container did not answer", detail: error.message };
  }
  if (error instanceof HttpError) {
    if (error.status === 504) {
      return { status: 504, message: "the container was not ready in time; try again later", detail: error.message };
    }
    if (error.status === 503 || error instanceof ReleasedMeanwhile) return { ...unavailable, detail: error.message };
    return { status: 502, message: "the container could not be started", detail: error.message };
  }
  return { ...unavailable, detail: error instanceof Error ? error.message : String(error) };
}

const unavailable = { status: 503, message: "this cannot be served at the moment; try again later" } as const;
