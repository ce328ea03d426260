import type { Client } from "../client/index.ts";
import type { Interrupts } from "./interrupts.ts";
import type { Io } from "./io.ts";
import type { Printer } from "./printer.ts";
import type { Settings } from "./settings.ts";

/** An option of a command. */
export interface Option {
  /** `optional` is an option that may have a value: `--resume` or `--resume=VERSION`. */
  readonly kind: "flag" | "value" | "values" | "optional";
  readonly short?: string;
  /** Stands for the value in the help, such as `FILE`. */
  readonly value?: string;
  /** The only values. */
  readonly choices?: readonly string[];
  readonly help: string;
}

export interface Command {
  /** Of one word, or two for a group, such as `files ls`. */
  readonly name: string;
  /** What it does, in one sentence without a full stop. */
  readonly summary: string;
  /** Its arguments in the help, such as `<tenant/workload> [path]`. */
  readonly words?: string;
  /** How many arguments it takes, without those after `--`. @default none */
  readonly least?: number;
  readonly most?: number;
  /** Whether it takes a command after `--`. @default false */
  readonly takesCommand?: boolean;
  /** Whether it calls the API with the key of the login. @default true */
  readonly needsKey?: boolean;
  readonly options?: Readonly<Record<string, Option>>;
  /** More sentences for the help. */
  readonly notes?: readonly string[];
  /** Command lines without `tenancy` at their start. */
  readonly examples: readonly string[];
  /** @returns the exit code @default 0 */
  run(input: Input, context: Context): Promise<number | undefined>;
}

/** What a person wrote after the name of a command. */
export interface Input {
  readonly words: readonly string[];
  /** What follows `--`. */
  readonly command: readonly string[];
  flag(name: string): boolean;
  /** "" for an option of the kind `optional` without a value. */
  value(name: string): string | undefined;
  values(name: string): readonly string[];
}

/** What a command works with. */
export interface Context {
  readonly settings: Settings;
  readonly client: Client;
  readonly io: Io;
  readonly print: Printer;
  readonly interrupts: Interrupts;
  /** Aborted by Ctrl-C, unless the command takes it itself, and when the reader of the output has gone. */
  readonly signal: AbortSignal;
}

/** A mistake in the command line. Exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A failure with an exit code of its own. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly exitCode: number;

  constructor(message: string, options: { exitCode: number; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.exitCode = options.exitCode;
  }
}
