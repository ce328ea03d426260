import { ApiError } from "../../../crds/client/api-error.ts";

/** What the API server refuses a call with; undefined where it does not. */
export async function reasonOf(call: Promise<unknown>): Promise<string | undefined> {
  try {
    await call;
    return undefined;
  } catch (error) {
    if (error instanceof ApiError) return error.message;
    throw error;
  }
}
