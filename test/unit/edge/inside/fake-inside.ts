import type { Readable, Writable } from "node:stream";
import type { ExecResult } from "../../../../crds/client/exec/exec.ts";
import type { ChannelOptions } from "../../../../edge/inside/channel.ts";
import {
  createFrameDecoder,
  encodeFrame,
  type Frame,
  type FrameType,
  frameType,
} from "../../../../edge/inside/frames.ts";
import { eventually } from "../../../eventually.ts";

/** The program's end of a channel, in the hands of a test. */
export interface FakeInside {
  readonly run: ChannelOptions["run"];
  /** What the channel has sent. */
  readonly frames: Frame[];
  /** The sizes of the chunks that came. */
  readonly chunks: number[];
  hello(version?: unknown): void;
  send(type: FrameType, stream: number, payload?: Uint8Array | object): void;
  write(bytes: Uint8Array): void;
  /** Ends the exec. */
  end(result: Partial<ExecResult> | Error): void;
  /** Stops reading the channel's frames, until it is called with false. */
  pause(isPaused: boolean): void;
  /** Waits until the channel has sent as many frames of a type, and returns the last of them. */
  sent(type: FrameType, count?: number): Promise<Frame>;
  count(type: FrameType): number;
  signal(): AbortSignal | undefined;
}

export function fakeInside(): FakeInside {
  const frames: Frame[] = [];
  const chunks: number[] = [];
  const decode = createFrameDecoder((frame) => frames.push(frame));
  let io: { stdin: Readable; stdout: Writable; signal: AbortSignal } | undefined;
  let settle: { resolve: (result: ExecResult) => void; reject: (error: unknown) => void } | undefined;
  const of = (type: FrameType) => frames.filter((frame) => frame.type === type);
  const fake: FakeInside = {
    frames,
    chunks,
    run(streams) {
      io = streams;
      streams.stdin.on("data", (chunk: Buffer) => {
        chunks.push(chunk.length);
        decode(chunk);
      });
      return new Promise((resolve, reject) => {
        settle = { resolve, reject };
        streams.signal.addEventListener("abort", () => reject(streams.signal.reason), { once: true });
      });
    },
    hello: (version = 1) => fake.send(frameType.hello, 0, { version }),
    send(type, stream, payload) {
      const bytes = payload === undefined || payload instanceof Uint8Array ? payload : jsonBytes(payload);
      fake.write(encodeFrame(type, stream, bytes));
    },
    write: (bytes) => void io?.stdout.write(bytes),
    end(result) {
      if (result instanceof Error) settle?.reject(result);
      else settle?.resolve({ exitCode: 0, stderr: "", ...result });
    },
    pause: (isPaused) => void (isPaused ? io?.stdin.pause() : io?.stdin.resume()),
    async sent(type, count = 1) {
      await eventually(() => of(type).length >= count);
      return of(type)[count - 1] as Frame;
    },
    count: (type) => of(type).length,
    signal: () => io?.signal,
  };
  return fake;
}

function jsonBytes(value: object): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}
