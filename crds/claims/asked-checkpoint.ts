import type { Claim } from "../claim.ts";
import { annotation } from "../labels.ts";

const MOST_LETTERS = 256;

/** A checkpoint that a person or the API asked for, by the annotation `tenancy.dev/checkpoint` of the claim. */
export interface AskedCheckpoint {
  /** The value of the annotation: `<name>`, or `<name>/<id>`, where the name may be empty. */
  readonly request: string;
  /** The name of the version. Undefined for one that the session's next checkpoint replaces. */
  readonly name: string | undefined;
}

/** @param id makes the request another one than an earlier request with the same name */
export function checkpointRequest({ name = "", id }: { name?: string | undefined; id: string }): string {
  return `${name}/${id}`;
}

/** The checkpoint that a claim asks for; undefined if its status has the answer. */
export function askedCheckpoint({ metadata, status }: Claim): AskedCheckpoint | undefined {
  // An annotation may be longer than the status that answers it.
  const request = metadata.annotations?.[annotation.checkpoint]?.slice(0, MOST_LETTERS);
  if (request === undefined || request === status?.checkpoint?.request) return undefined;
  const [name = ""] = request.split("/");
  return { request, name: name === "" ? undefined : name };
}
