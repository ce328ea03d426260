import { sizeWords } from "../parts/size-words.ts";
import type { ShellState } from "./shell-connection.ts";

/** A state of a shell in words. */
export function stateWords(state: ShellState): string {
  switch (state.is) {
    case "connecting":
      return "Connecting …";
    case "open":
      return `Connected to process ${state.pid}.`;
    case "lost":
      return `Connection lost. Reconnecting …${state.unsentBytes === 0 ? "" : ` ${sizeWords(state.unsentBytes)} of input were not sent.`}`;
    case "behind":
      return "The output is faster than this page can show it; some is left out.";
    case "ended":
      return state.process.signal === undefined
        ? `The process exited with code ${state.process.exitCode}.`
        : `The process was ended by ${state.process.signal}.`;
    case "failed":
      return state.message;
    default: {
      const never: never = state;
      return never;
    }
  }
}
