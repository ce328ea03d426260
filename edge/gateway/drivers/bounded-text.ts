import { DriverError } from "./driver.ts";
import { MAX_REPLY_BYTES } from "./limits.ts";

/** An agent's output as it grows. */
export interface BoundedText {
  /** @throws DriverError when the whole gets larger than 1 MiB */
  append(piece: string): void;
  /** Takes the place of what there was. @throws DriverError as `append` */
  replace(text: string): void;
  toString(): string;
}

export function createBoundedText(): BoundedText {
  let pieces: string[] = [];
  let size = 0;

  function append(piece: string): void {
    size += Buffer.byteLength(piece);
    if (size > MAX_REPLY_BYTES) {
      throw new DriverError(`the agent's answer is larger than ${MAX_REPLY_BYTES} bytes`, { nothingSent: false });
    }
    pieces.push(piece);
  }

  return {
    append,
    replace(text) {
      pieces = [];
      size = 0;
      append(text);
    },
    toString: () => pieces.join(""),
  };
}
