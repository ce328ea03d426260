import { setFlagsFromString } from "node:v8";

const FLAG = "--heap-growing-percent";
/** With 0, V8's own choice, some transfers still had ten full collections; 400 takes 10 MiB more. */
const GROWING_PERCENT = 200;

/**
 * Returns a function that lets the heap grow while files pass through this process
 * (docs/decisions/snapshots.md#buffers-of-transfers-are-no-growth). Create it once for each process.
 */
export function createTransferHeap(): <T>(work: () => Promise<T>) => Promise<T> {
  /** The flag that this process was started with, which keeps its heap small. */
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
