import * as v from "valibot";
import { pattern } from "../../../crds/schema/patterns.ts";
import { commandRule } from "../instances/exec.ts";
import { bytesOf } from "./byte-text.ts";

const MAX_STDIN_BYTES = 256 * 1024;
const MAX_ENV_BYTES = 64 * 1024;
const MAX_SECONDS = 86_400;
/** Of a call whose caller waits for the end. */
const DEFAULT_SECONDS = 60;

/** Of a variable. */
const NAME = "^[^=\\u0000]+$";

const text = v.pipe(v.string(), v.regex(new RegExp(pattern.noNull), "must not contain a NUL character"));
const cells = (what: string) =>
  v.pipe(
    v.number(),
    v.integer("must be a whole number"),
    v.minValue(1, "must be at least 1"),
    v.maxValue(1000, "must be at most 1000"),
    v.description(what),
  );

/** The body of `POST …/processes`. */
export const processBody = v.strictObject({
  command: commandRule,
  env: v.optional(
    v.pipe(
      // A record would take a list too.
      v.unknown(),
      v.check((env) => !Array.isArray(env), "must be an object, got array"),
      v.record(
        v.pipe(text, v.regex(new RegExp(NAME), "must be the name of a variable: without = and not empty")),
        text,
      ),
      v.check(
        (env) => Buffer.byteLength(Object.entries(env).flat().join("")) <= MAX_ENV_BYTES,
        `must have at most ${MAX_ENV_BYTES} bytes in total`,
      ),
      v.metadata({ propertyNames: { pattern: NAME } }),
      v.description(
        "Variables in addition to those of the container and of the claim, which they replace; at most 64 KiB in total.",
      ),
    ),
  ),
  cwd: v.optional(
    v.pipe(
      text,
      v.minLength(1, "must not be empty"),
      v.maxLength(4096, "must have at most 4096 characters"),
      v.description("The folder it starts in; by default the container's. Relative to that one."),
    ),
  ),
  stdin: v.optional(
    v.pipe(
      v.string(),
      v.check(
        (input) => Buffer.byteLength(input) <= MAX_STDIN_BYTES,
        `must have at most ${MAX_STDIN_BYTES} bytes; write more to a file first`,
      ),
      v.description(`What it reads, at most ${MAX_STDIN_BYTES} bytes of UTF-8; by default nothing.`),
    ),
  ),
  keepStdin: v.optional(
    v.pipe(
      v.boolean(),
      v.description("Whether its input stays open after that, for clients that attach. A terminal's always does."),
    ),
    false,
  ),
  tty: v.optional(
    v.pipe(
      v.strictObject({ cols: cells("Columns."), rows: cells("Rows.") }),
      v.description("Gives it a terminal of this size. Both its outputs are then one, stdout."),
    ),
  ),
  background: v.optional(
    v.pipe(v.boolean(), v.description("Whether it goes on by itself: the response does not wait for its end.")),
    false,
  ),
  timeoutSeconds: v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MAX_SECONDS, `must be at most ${MAX_SECONDS}`),
      v.description(
        `After this it gets SIGTERM, and SIGKILL two seconds later. ${DEFAULT_SECONDS} by default; none in the background.`,
      ),
    ),
  ),
});

/** What the program in the pod is asked to start. */
export function startParameters(body: v.InferOutput<typeof processBody>): {
  readonly timeoutSeconds?: number;
  readonly [name: string]: unknown;
} {
  const { command, env = {}, cwd, stdin, keepStdin, tty, background, timeoutSeconds } = body;
  const seconds = timeoutSeconds ?? (background ? undefined : DEFAULT_SECONDS);
  return {
    command: command.map(bytesOf),
    env: Object.entries(env).map(([name, value]) => bytesOf(`${name}=${value}`)),
    background,
    keepInput: keepStdin,
    ...(cwd !== undefined && { cwd: bytesOf(cwd) }),
    ...(stdin !== undefined && stdin !== "" && { input: Buffer.from(stdin).toString("base64") }),
    ...(tty !== undefined && { tty }),
    ...(seconds !== undefined && { timeoutSeconds: seconds }),
  };
}
