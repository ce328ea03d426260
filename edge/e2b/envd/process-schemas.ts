import * as v from "valibot";

const uint32 = v.pipe(
  v.union([v.number(), v.pipe(v.string(), v.regex(/^\d{1,10}$/), v.transform(Number))], "must be a whole number"),
  v.integer("must be a whole number"),
  v.minValue(0, "must be at least 0"),
  v.maxValue(2 ** 32 - 1, "must be at most 4294967295"),
);
const text = v.pipe(
  v.string("must be a string"),
  v.check((value) => !value.includes("\0"), "must not contain a NUL character"),
);
const bytes = v.pipe(
  v.string("must be a string"),
  v.regex(/^[\w+/-]*={0,2}$/, "must be base64"),
  v.transform((base64) => Buffer.from(base64, "base64")),
);

const cells = v.pipe(uint32, v.minValue(1, "must be at least 1"), v.maxValue(65535, "must be at most 65535"));
const pty = v.object({ size: v.object({ cols: cells, rows: cells }) });

const process = v.object({ pid: v.nullish(uint32), tag: v.nullish(text) }, "must name a process by its pid or its tag");
export type Selector = v.InferOutput<typeof process>;

const input = v.pipe(
  v.object({ stdin: v.nullish(bytes), pty: v.nullish(bytes) }, "must have an input"),
  v.check((given) => (given.stdin ?? given.pty ?? undefined) !== undefined, "must have stdin or pty"),
);
export type ProcessInput = v.InferOutput<typeof input>;

const envs = v.pipe(
  v.record(v.pipe(text, v.regex(/^[^=]+$/, "must be the name of a variable: without = and not empty")), text),
);

/** The messages of https://github.com/e2b-dev/infra/blob/main/packages/envd/spec/process/process.proto */
export const startMessage = v.object({
  process: v.object(
    {
      cmd: v.pipe(text, v.minLength(1, "must name a program")),
      args: v.nullish(v.array(text), []),
      envs: v.nullish(envs, {}),
      cwd: v.nullish(text),
    },
    "must have a process",
  ),
  pty: v.nullish(pty),
  // Each list of processes has all tags.
  tag: v.nullish(v.pipe(text, v.maxLength(1024, "must have at most 1024 characters"))),
  stdin: v.nullish(v.boolean("must be true or false")),
});
export type StartMessage = v.InferOutput<typeof startMessage>;

export const listMessage = v.object({});
export const selectMessage = v.object({ process });
export const updateMessage = v.object({ process, pty: v.nullish(pty) });
export const inputMessage = v.object({ process, input });
export const streamInputMessage = v.object({
  start: v.nullish(v.object({ process })),
  data: v.nullish(v.object({ input })),
  keepalive: v.nullish(v.object({})),
});
export const signalMessage = v.object({
  process,
  signal: v.union(
    [
      v.pipe(
        v.picklist(["SIGNAL_SIGTERM", 15]),
        v.transform(() => "TERM"),
      ),
      v.pipe(
        v.picklist(["SIGNAL_SIGKILL", 9]),
        v.transform(() => "KILL"),
      ),
    ],
    "must be SIGNAL_SIGTERM or SIGNAL_SIGKILL",
  ),
});
