import type { CallData } from "./call-inside.ts";

/**
 * A body that is read at the client's pace. It breaks off unless it has the length that was announced: on a connection
 * that is kept, what is too much would be taken for the next answer.
 */
export function dataStream(data: CallData, length: number | undefined): ReadableStream<Uint8Array> {
  let left = length ?? Number.POSITIVE_INFINITY;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await data.next();
        left -= value?.length ?? 0;
        if (left < 0 || (done === true && length !== undefined && left > 0)) {
          await data.return();
          controller.error(new Error("Cannot send a file: its pod sends another length than it has announced"));
        } else if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await data.return();
      },
    },
    { highWaterMark: 0 },
  );
}
