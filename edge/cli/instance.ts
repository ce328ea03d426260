import { ApiError, type Client } from "../client/index.ts";
import { textOfWhere, type Where, whereOf } from "./where.ts";

interface Tools {
  readonly client: Client;
  readonly signal: AbortSignal;
}

/** The id of the instance that a person named, so that later calls never get another one. @throws as `idOf` does */
export function instanceOf(text: string | undefined, tools: Tools): Promise<string> {
  return idOf(whereOf(text ?? ""), tools);
}

/** @throws ApiError with the status 404 without a claim, 409 while it has no instance */
export async function idOf(where: Where, { client, signal }: Tools): Promise<string> {
  if (typeof where === "string") return where;
  const { tenant: id, workload } = where;
  const { instanceId, phase } = await client.call("GET /api/v1/tenants/{id}/claims/{workload}", {
    ...{ path: { id, workload }, signal },
  });
  if (instanceId !== undefined) return instanceId;
  throw new ApiError(`${textOfWhere(where)} has no instance yet: its claim is ${phase}; tenancy wait waits for it`, {
    status: 409,
  });
}
