import { setFlagsFromString } from "node:v8";

const FLAG = "--heap-growing-percent";
/** With V8's own choice, 0, some transfers still had ten full collections; 400 takes 10 MiB more. */
const GROWING_PERCENT = 200;

/**
 * Makes what lets the heap grow while files pass through this program
 * (docs/decisions/snapshots.md#buffers-of-transfers-are-no-growth). One a program, whose heap it is.
 */
export function createTransferHeap(): <T>(work: () => Promise<T>) => Promise<T> {
  /** What this program was started with, which keeps its heap small. */
  const usual = process.execArgv.find((argument) => argument.startsWith(`${FLAG}=`));
  let transfers = 0;
  return async (work) => {
    if (usual === undefined) return await work();
    transfers += 1;
    if (transfers === 1) setFlagsFromString(`${FLAG}=${GROWING_PERCENT}`);
    try {
      return await work();
    } finally {
      transfers -= 1;
      if (transfers === 0) setFlagsFromString(usual);
    }
  };
}
