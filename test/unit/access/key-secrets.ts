import type { Secret } from "../../../crds/kubernetes.ts";
import { type KeyRecord, secretOfKey } from "../../../edge/access/key-record.ts";
import { makeKeyText } from "../../../edge/access/key-text.ts";

/** A new key of the role platform unless named, and its Secret at a resourceVersion as the API server returns it. */
export function newKey(more: Partial<KeyRecord> = {}) {
  const { text, id, digest } = makeKeyText();
  const createdAt = "2026-01-01T00:00:00Z";
  const record: KeyRecord = { id, name: "a", role: "platform", createdAt, sha256: digest.toString("hex"), ...more };
  const secretAt = (version: number, change: Partial<KeyRecord> = {}): Secret => {
    const secret = secretOfKey({ ...record, ...change }, { namespace: "keys" });
    const metadata = { ...secret.metadata, uid: `uid-${id}`, resourceVersion: String(version) };
    return { ...secret, metadata: { ...metadata, creationTimestamp: createdAt } };
  };
  return { text, id, record, secretAt };
}
