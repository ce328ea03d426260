import type { RequestCount } from "./count-requests.ts";

/** What claims of one path asked of the API server. */
export interface CountedPath {
  /** How many claims were counted. */
  readonly claims: number;
  readonly requests: readonly RequestCount[];
}
