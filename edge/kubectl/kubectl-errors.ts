import { HttpError } from "../http/http-error.ts";

/** The known reasons why kubectl itself failed. */
type KubectlErrorKind =
  | "no previous run"
  | "no pod"
  | "no program"
  | "not running"
  | "no node"
  | "no cluster"
  | "cut"
  | "forbidden"
  | "unknown";

/** A failure of kubectl itself, parsed from its output. */
export interface KubectlError {
  readonly kind: KubectlErrorKind;
  /** Its last line, for a log. */
  readonly line: string;
  /** The useful part of that line: without kubectl's prefix and the runtime's identifiers. */
  readonly reason: string;
}

/** A container that ends while an exec starts in it. */
const ENDED =
  /no running task found|cannot exec in a (?:stopped|deleted)|CONTAINER_EXITED|process already finished|process does not exist|not in running state|procReady not received|failed to find container|task \S+ not found/;

/** The first match counts. */
const patterns: readonly [RegExp, KubectlErrorKind][] = [
  [/previous terminated container .* not found/, "no previous run"],
  [/pods? "[^"]*" not found/, "no pod"],
  [ENDED, "not running"],
  [/OCI runtime exec failed|executable file not found|failed to start exec|exec format error/, "no program"],
  [
    /waiting to start|pod does not exist|ContainerCreating|PodInitializing|container not found|container .* is not (?:running|valid|available)|completed pod|does not have a host assigned|is not running|is terminated/,
    "not running",
  ],
  [
    // There is no word after the colon if what answers for the node is not a kubelet, over SPDY.
    /error dialing backend|^Error from server:\s*$|Get "https:\/\/[^"]*containerLogs|could not find the requested resource \( pods\/log/m,
    "no node",
  ],
  [
    /Unable to connect to the server|The connection to the server|currently unable to handle|i\/o timeout|TLS handshake|ServiceUnavailable/,
    "no cluster",
  ],
  [
    /error stream protocol|error reading from error stream|unable to upgrade connection|connection reset|unexpected EOF|lost connection/,
    "cut",
  ],
  [/\(Forbidden\)|\(Unauthorized\)|must be logged in/, "forbidden"],
];

/**
 * Converts a failure of kubectl itself, by its standard error.
 *
 * @param describe describes it for the object of the call; undefined if the failure has nothing to do with that
 * @returns an HttpError for a known failure, with kubectl's own words as its cause; an Error for others, which is
 * returned as internal and logged
 */
export function kubectlError(stderr: string, describe: (failure: KubectlError) => HttpError | undefined): Error {
  const failure = parse(stderr);
  const error = describe(failure) ?? clusterError(failure);
  if (!(error instanceof HttpError)) return error;
  return new HttpError(error.status, error.message, { headers: error.headers, cause: new Error(failure.line) });
}

function parse(stderr: string): KubectlError {
  const line = lastLine(stderr);
  const kind = patterns.find(([pattern]) => pattern.test(stderr))?.[1] ?? "unknown";
  return { kind, line, reason: reasonOf(line) };
}

/** kubectl prints its own error last, after the logs of its libraries. */
function lastLine(stderr: string): string {
  return stderr.trimEnd().split("\n").at(-1)?.trim() ?? "";
}

function reasonOf(line: string): string {
  if (ENDED.test(line)) return "its container has ended";
  const program = /exec: ("(?:[^"\\]|\\.)*": [^:]+)/.exec(line)?.[1];
  if (program !== undefined) return program;
  return line
    .replace(/^error: /i, "")
    .replace(/^Error from server(?: \(\w+\))?: /, "")
    .replace(/^unable to upgrade connection: /, "");
}

function clusterError({ kind, line }: KubectlError): Error {
  switch (kind) {
    case "no cluster":
      return new HttpError(503, "the cluster cannot be reached now; try again shortly", {
        headers: { "retry-after": "1" },
      });
    case "forbidden":
      return new HttpError(
        500,
        "the cluster does not permit this server to do that; allow its account to create pods/exec and to get pods/log",
      );
    default:
      return new Error(`kubectl failed: ${line === "" ? "no output" : line}`);
  }
}
