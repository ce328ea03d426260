/** The last buckets of equal length, each a row of numbers. */
export interface TimeBuckets {
  /** The row of the current bucket, to be counted into. */
  current(): Int32Array;
  /** The known rows, oldest first and the current one last, and when the first of them began. */
  read(): { from: number; rows: Int32Array[] };
}

/**
 * Makes a ring of buckets. Nothing runs by itself: buckets that passed without a call are made at the next call.
 *
 * @param options.stepMs length of a bucket
 * @param options.count number of stored buckets
 * @param options.width numbers in a row, of 4 bytes each
 * @param options.now milliseconds since the epoch; a time before the newest bucket counts into that one
 * @param options.from when the first bucket began, in milliseconds since the epoch @default now
 * @param options.first initial row of that bucket @default zeros
 * @param options.begin fills the row of a new bucket, initially zeros, from the previous one @default leaves it
 */
export function createTimeBuckets(options: {
  stepMs: number;
  count: number;
  width: number;
  now: () => number;
  from?: number;
  first?: readonly number[];
  begin?: (row: Int32Array, before: Int32Array) => void;
}): TimeBuckets {
  const { stepMs, count, width, now, from = now(), begin } = options;
  const cells = new Int32Array(count * width);
  const row = (bucket: number): Int32Array => {
    const start = (bucket % count) * width;
    return cells.subarray(start, start + width);
  };
  const first = Math.floor(from / stepMs);
  let newest = first;
  row(first).set(options.first ?? []);

  function advance(): void {
    const present = Math.floor(now() / stepMs);
    // After a gap longer than the ring, only its last buckets can be read.
    if (present - newest > count) {
      const last = row(newest).slice();
      newest = present - count;
      row(newest).set(last);
    }
    while (newest < present) {
      const before = row(newest);
      newest += 1;
      const after = row(newest);
      after.fill(0);
      begin?.(after, before);
    }
  }

  return {
    current() {
      advance();
      return row(newest);
    },
    read() {
      advance();
      const oldest = Math.max(first, newest - count + 1);
      const rows = Array.from({ length: newest - oldest + 1 }, (_, index) => row(oldest + index));
      return { from: oldest * stepMs, rows };
    },
  };
}
