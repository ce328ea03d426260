import type { ChildProcess } from "node:child_process";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";

/** What runs commands in pods. */
export interface CommandRunner {
  /**
   * Starts a command in a running container.
   *
   * @throws Error in the words of a kubelet, when there is no such container or it does not run
   */
  run(pod: string, container: string, command: readonly string[]): Promise<ChildProcess>;
}

const [STDIN, STDOUT, STDERR, STATUS, CLOSE] = [0, 1, 2, 3, 255];
const MOST_WAITING_BYTES = 1 << 20;

/**
 * Answers `pods/<name>/exec` over WebSockets as an API server with a kubelet does.
 *
 * Follows
 * https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
 */
export function createExecEndpoint(runner: CommandRunner) {
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    handleProtocols: (offered) =>
      ["v5.channel.k8s.io", "v4.channel.k8s.io"].find((protocol) => offered.has(protocol)) ?? false,
  });

  return async function onExec(
    pod: string,
    request: IncomingMessage,
    { socket, head }: { socket: Duplex; head: Buffer },
  ): Promise<void> {
    const query = new URL(request.url ?? "", "http://pods").searchParams;
    let child: ChildProcess;
    try {
      child = await runner.run(pod, query.get("container") ?? "", query.getAll("command"));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const code = /not found$/.test(message) ? 404 : 500;
      const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, code };
      const body = Buffer.from(JSON.stringify({ ...status, reason: code === 404 ? "NotFound" : "InternalError" }));
      const headers = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close`;
      socket.end(Buffer.concat([Buffer.from(`HTTP/1.1 ${code} Refused\r\n${headers}\r\n\r\n`), body]));
      return;
    }
    server.handleUpgrade(request, socket, head, (open) => relay(open, child, query.get("stdin") === "true"));
  };
}

function relay(open: WebSocket, child: ChildProcess, hasInput: boolean): void {
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error("Cannot exec: started without pipes");
  // A command that has ended takes no more input; how it ended is told by its status.
  stdin.on("error", () => undefined);
  if (!hasInput) stdin.end();
  open.on("error", () => open.terminate());
  open.on("message", (data) => {
    const message = data as Buffer;
    if (message[0] === CLOSE && message[1] === STDIN) stdin.end();
    if (message[0] !== STDIN || stdin.writableEnded) return;
    if (stdin.write(message.subarray(1))) return;
    open.pause();
    stdin.once("drain", () => open.resume());
  });
  // As with containerd, a command whose caller has disconnected continues without input, and its output is not read.
  open.on("close", () => stdin.end());
  for (const [channel, stream] of [
    [STDOUT, stdout],
    [STDERR, stderr],
  ] as const) {
    stream.on("data", (chunk: Buffer) => {
      if (open.readyState !== open.OPEN) return;
      open.send(Buffer.concat([Buffer.of(channel), chunk]), () => stream.resume());
      if (open.bufferedAmount > MOST_WAITING_BYTES) stream.pause();
    });
  }
  child.on("close", (code, signal) => {
    if (open.readyState !== open.OPEN) return;
    open.send(Buffer.concat([Buffer.of(STATUS), Buffer.from(JSON.stringify(statusOf(code, signal)))]));
    open.close(1000);
  });
}

function statusOf(code: number | null, signal: NodeJS.Signals | null): object {
  if (code === 0) return { metadata: {}, status: "Success" };
  const exitCode = String(code ?? 137);
  return {
    metadata: {},
    status: "Failure",
    reason: "NonZeroExitCode",
    message: `command terminated with non-zero exit code: ${signal ?? `exit status ${exitCode}`}`,
    details: { causes: [{ reason: "ExitCode", message: exitCode }] },
  };
}
