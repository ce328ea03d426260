import type { CommittedSnapshot, PutCall, SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { bitsOf, type Packed } from "../archive/packed-archives.ts";
import { call, key, MOST } from "./store-contract.ts";

interface TabledSave {
  readonly archive: Packed;
  /** An archive of the store, of which some entries stay, before those that are sent. @default none */
  readonly onto?: { readonly base: string; readonly kept: ReadonlySet<number> } | undefined;
  readonly to?: typeof key;
  readonly createdAt?: string;
  /** Before the last bytes are sent. */
  readonly pause?: Promise<unknown>;
}

/** Saves an archive with its table in the place of what is there. */
export async function saveTabled(store: SnapshotStore, options: TabledSave): Promise<CommittedSnapshot> {
  const { archive, onto, to = key, createdAt = "2026-11-21T12:00:00.000Z", pause } = options;
  const { revision: replaces } = await store.look(to, call);
  const described = { uid: 1000, gid: 2000, entries: 1, contentBytes: 10, overlayDirs: ["/data"], createdAt };
  const put: PutCall = {
    ...{ ...call, replaces, most: MOST, keep: "replaced" },
    onto: onto && { base: onto.base, keeps: bitsOf(onto.kept), table: () => archive.mark },
    describe: ({ table }) => ({ ...described, table: onto === undefined ? archive.mark : table }),
  };
  return await store.put(to, slowly(archive.archive, pause), put);
}

async function* slowly(bytes: Buffer, pause: Promise<unknown> | undefined): AsyncGenerator<Uint8Array> {
  yield bytes.subarray(0, 10);
  await pause;
  yield bytes.subarray(10);
}
