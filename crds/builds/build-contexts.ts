import type { StoreCall } from "../snapshots/snapshot-store.ts";

/** A stored build context. */
export interface KeptContext {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/**
 * Uploaded build contexts, by workload, in the store of the archives. Every call throws as those of `SnapshotStore` do.
 */
export interface BuildContexts {
  /**
   * Stores a context, and deletes the workload's others, except those a few minutes old, which may belong to a
   * concurrent upload.
   *
   * @param content its bytes; if it fails, the call fails and changes nothing
   * @param call.mostBytes a larger context fails the call
   * @param call.confirm called when all of it has arrived; returns the SHA-256 of another context to keep
   * @throws StoreError if there is no room for it
   */
  put(
    workload: string,
    content: AsyncIterable<Uint8Array>,
    call: StoreCall & { readonly mostBytes: number; readonly confirm: () => Promise<string | undefined> },
  ): Promise<KeptContext>;
  /**
   * Undefined if it does not exist. An error of the iteration means that it was truncated or differs; `close` abandons
   * the rest.
   */
  open(
    workload: string,
    sha256: string,
    call: StoreCall,
  ): Promise<{ readonly sizeBytes: number; readonly content: AsyncIterable<Uint8Array>; close(): void } | undefined>;
  /** Deletes all contexts of a workload, including incomplete uploads. */
  erase(workload: string, call: StoreCall): Promise<void>;
}
