import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { CallError, call } from "../api/call.ts";
import type { Refusal, ShellOptions } from "./shell-connection.ts";

/** Most terminals of an instance that can be open. */
const MOST_TERMINALS = 20;

/** How the browser opens the sockets of an instance's shells, with the session's cookie as for every request. */
export function shellSockets(
  instance: string,
  { size }: Pick<ShellOptions, "size">,
): Pick<ShellOptions, "open" | "explain"> {
  const path = `/instances/${encodeURIComponent(instance)}`;
  return {
    open(pid, { onOpen, onText, onBytes, onClose }) {
      const { cols, rows } = size();
      const address = pid === undefined ? `terminal?cols=${cols}&rows=${rows}` : `processes/${pid}/attach`;
      const scheme = location.protocol === "https:" ? "wss" : "ws";
      const socket = new WebSocket(`${scheme}://${location.host}/api/v1${path}/${address}`, "tenancy.terminal");
      socket.binaryType = "arraybuffer";
      socket.onopen = onOpen;
      socket.onmessage = ({ data }) => {
        if (typeof data === "string") onText(data);
        else onBytes(new Uint8Array(data as ArrayBuffer));
      };
      socket.onclose = ({ code, reason }) => onClose(code, reason);
      return socket;
    },
    async explain(pid): Promise<Refusal> {
      // A browser does not report why a socket was refused; a request gets the same answer in words.
      try {
        if (pid !== undefined) {
          await call<ApiTypes["Process"]>("GET", `${path}/processes/${pid}?stdoutFrom=-1&stderrFrom=-1`);
        } else {
          const all = await call<ApiTypes["Process"][]>("GET", `${path}/processes`);
          const open = all.filter(({ tty, background, state }) => tty && background && state === "running");
          if (open.length >= MOST_TERMINALS)
            return {
              isPassing: false,
              message: `${open.length} terminals are open already. End one of the processes.`,
            };
        }
        return { isPassing: true, message: "The connection cannot be opened." };
      } catch (error) {
        const { message } = error as Error;
        const status = error instanceof CallError ? error.status : 0;
        return { isPassing: status === 0 || status === 401 || status === 429 || status >= 500, message };
      }
    },
  };
}
