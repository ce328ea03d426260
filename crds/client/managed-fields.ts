import type { KubernetesObject, ObjectMeta } from "../kubernetes.ts";

const key = Buffer.from('"managedFields":[{"');
/**
 * The first field of an entry: fields have the order of Go's types, or alphabetical order for custom resources.
 */
const firstFields = [Buffer.from('manager":'), Buffer.from('apiVersion":')];

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;

/**
 * Cuts all `managedFields` out of the JSON of objects, in place, and returns the remaining buffer.
 *
 * They are up to half of an object's bytes: without them, parsing a page of 500 pods takes half the time (14 ms instead
 * of 27 ms). The key cannot be part of a string, where its quotes would be escaped. A similar key elsewhere in an
 * object stays.
 */
export function cutManagedFields(json: Buffer): Buffer {
  let read = 0;
  let written = 0;
  for (let start = json.indexOf(key); start !== -1; start = json.indexOf(key, Math.max(start + 1, read))) {
    if (!firstFields.some((field) => startsAt(json, start + key.length, field))) continue;
    let end = endOfArray(json, start + key.length - 2);
    if (end === undefined) break;
    let keep = start;
    if (json[keep - 1] === comma) keep -= 1;
    else if (json[end] === comma) end += 1;
    if (written !== read) json.copyWithin(written, read, keep);
    written += keep - read;
    read = end;
  }
  if (read === 0) return json;
  json.copyWithin(written, read);
  return json.subarray(0, written + json.length - read);
}

function startsAt(json: Buffer, start: number, text: Buffer): boolean {
  return json.compare(text, 0, text.length, start, start + text.length) === 0;
}

/** The end of an array whose contents begin at `from`; undefined if it does not end. */
function endOfArray(json: Buffer, from: number): number | undefined {
  let depth = 1;
  for (let at = from; at < json.length; at++) {
    const byte = json[at];
    if (byte === quote) {
      at += 1;
      while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1;
    } else if (byte === openBracket) {
      depth += 1;
    } else if (byte === closeBracket) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return undefined;
}

/** Removes `managedFields` from an object, in place, if they were not cut out of its JSON. */
export function dropManagedFields<T extends KubernetesObject>(object: T): T {
  const metadata: (ObjectMeta & { managedFields?: unknown }) | undefined = object.metadata;
  if (metadata?.managedFields === undefined) return object;
  // Copy the object, since `delete` would turn it into a hash table, which is larger and slower.
  const { managedFields: _, ...rest } = metadata;
  object.metadata = rest;
  return object;
}

/**
 * For the metadata of a patch: the API server drops the managed fields of the object, and no longer tracks them
 * (docs/decisions/watch-and-caches.md#the-hot-path-clears-managed-fields). Not for applied objects.
 *
 * Follows https://kubernetes.io/docs/reference/using-api/server-side-apply/#clearing-managedfields
 */
export const clearManagedFields = { managedFields: [{}] } as const;
