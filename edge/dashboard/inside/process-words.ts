import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { visible } from "./file-path.ts";

export type Process = ApiTypes["Process"];

/** A command as a shell would take it, in characters that can be seen. */
export function commandWords(command: readonly string[]): string {
  return visible(command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word))).join(" "));
}

export function stateOf({ state, exitCode, signal, timedOut }: Process): string {
  if (state === "running") return "running";
  const end = signal === undefined ? `exited with code ${exitCode}` : `ended by ${visible(signal)}`;
  return timedOut === true ? `${end}, after its time` : end;
}
