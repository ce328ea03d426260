/** What an adapter knows about a request beyond the request itself. */
export interface RequestContext {
  /** Aborted when the client goes away before its answer; `request.signal` where the runtime aborts that one. */
  readonly clientGone?: AbortSignal;
}
