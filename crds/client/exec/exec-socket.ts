import type { IncomingMessage } from "node:http";
import { WebSocket } from "ws";
import { resourcePath } from "../../resource.ts";
import { onAbort } from "../../waits.ts";
import { NetworkError } from "../api-error.ts";
import { pods } from "../built-in-resources.ts";
import type { ClusterConfig, Credential } from "../config/cluster-config.ts";
import { readBody } from "../round-trip.ts";
import type { ExecTarget } from "./exec-outcome.ts";

/** The newest first. Servers before 1.30 know only the second. */
const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"] as const;

export type ExecSocket =
  | { readonly kind: "open"; readonly socket: WebSocket }
  | { readonly kind: "refusal"; readonly status: number; readonly body: Buffer; readonly path: string };

export interface ExecSocketOptions {
  readonly config: ClusterConfig;
  readonly credential: Credential;
  readonly target: ExecTarget;
  readonly hasInput: boolean;
  /** Milliseconds until the socket must be open. */
  readonly timeoutMs: number;
  /** Called with the socket before it is open, so that no message is missed. */
  readonly onSocket: (socket: WebSocket) => void;
  readonly signal: AbortSignal;
}

/**
 * Opens the WebSocket of an exec. If the server refuses, the result is its response, not an error.
 *
 * Follows
 * https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#-strong-misc-operations-pod-v1-core-strong-
 *
 * @throws NetworkError if there was no response
 * @throws the signal's reason if it is aborted
 */
export function openExecSocket(options: ExecSocketOptions): Promise<ExecSocket> {
  const { config, credential, timeoutMs, signal } = options;
  const path = execPath(options);
  const url = config.server.replace(/^http/, "ws").replace(/\/+$/, "") + path;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const socket = new WebSocket(url, [...protocols], {
      perMessageDeflate: false,
      followRedirects: false,
      handshakeTimeout: timeoutMs,
      maxPayload: 64 * 1024 * 1024,
      headers: credential.authorization === undefined ? {} : { authorization: credential.authorization },
      ...tlsOptions(config, credential),
    });
    options.onSocket(socket);

    function settle(end: () => void): void {
      ignoreAbort();
      end();
    }
    const ignoreAbort = onAbort(signal, () => {
      settle(() => reject(signal.reason));
      socket.terminate();
    });
    socket.on("unexpected-response", (_request: unknown, response: IncomingMessage) => {
      readBody(response).then(
        (body) => settle(() => resolve({ kind: "refusal", status: response.statusCode ?? 0, body, path })),
        (cause) => settle(() => reject(networkError(url, cause))),
      );
    });
    socket.on("error", (cause) => settle(() => reject(networkError(url, cause))));
    socket.on("open", () => settle(() => resolve({ kind: "open", socket })));
  });
}

function execPath({ target, hasInput }: ExecSocketOptions): string {
  const { namespace, pod, container, command } = target;
  const query = { container, stdin: hasInput, stdout: true, stderr: true, tty: false };
  const path = resourcePath(pods, { namespace, name: pod, subresource: "exec", query });
  return path + command.map((word) => `&command=${encodeURIComponent(word)}`).join("");
}

function tlsOptions(config: ClusterConfig, { ca, certificate, key }: Credential): object {
  if (config.server.startsWith("http:")) return {};
  return {
    rejectUnauthorized: config.insecureSkipTlsVerify !== true,
    ...(config.tlsServerName !== undefined && { servername: config.tlsServerName }),
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { cert: certificate }),
    ...(key !== undefined && { key }),
    // The connection is encrypted, which serves the purpose of masking; masking costs as much as encryption.
    generateMask(mask: Buffer) {
      mask.fill(0);
    },
  };
}

function networkError(url: string, cause: unknown): NetworkError {
  const what = cause instanceof Error ? cause.message : String(cause);
  return new NetworkError(`Cannot exec through ${url.slice(0, url.indexOf("?"))}: ${what}`, {
    cause,
    requestWasSent: true,
  });
}
