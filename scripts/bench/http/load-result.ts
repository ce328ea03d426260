/** One route to load. */
export interface LoadOrder {
  readonly port: number;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
  readonly connections: number;
  /** How long requests are sent before any is counted. */
  readonly warmUpMs: number;
  readonly measureMs: number;
}

/** What became of it. */
export interface LoadResult {
  readonly requests: number;
  /** Answered with another status than 200 or 201. */
  readonly failed: number;
  readonly seconds: number;
  /** Times of a part of the requests, evenly spread, in milliseconds. */
  readonly samplesMs: readonly number[];
}
