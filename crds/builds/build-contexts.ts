import type { StoreCall } from "../snapshots/snapshot-store.ts";

/** A build context that is kept. */
export interface KeptContext {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/**
 * Build contexts that were uploaded, by workload: in the store that archives are kept in. Every call throws as those of
 * `SnapshotStore` do.
 */
export interface BuildContexts {
  /**
   * Keeps a context, and deletes the workload's others; one that is a few minutes old may be of an upload at the same
   * time, and stays.
   *
   * @param content its bytes; a failure of it fails the call, and leaves what is there
   * @param call.mostBytes a context of more fails the call
   * @param call.confirm asked when all of it is there; gives the SHA-256 of another context that stays
   * @throws StoreError when there is no room for it
   */
  put(
    workload: string,
    content: AsyncIterable<Uint8Array>,
    call: StoreCall & { readonly mostBytes: number; readonly confirm: () => Promise<string | undefined> },
  ): Promise<KeptContext>;
  /**
   * Undefined when that one is not there. A failure of the iteration means that it was cut off, or is another; `close`
   * gives up what is not read to its end.
   */
  open(
    workload: string,
    sha256: string,
    call: StoreCall,
  ): Promise<{ readonly sizeBytes: number; readonly content: AsyncIterable<Uint8Array>; close(): void } | undefined>;
  /** Deletes all contexts of a workload, and what is received of them at the moment. */
  erase(workload: string, call: StoreCall): Promise<void>;
}
