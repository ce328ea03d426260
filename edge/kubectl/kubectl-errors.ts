import { HttpError } from "../http/http-error.ts";

/** Why kubectl itself failed, as far as it is foreseen. */
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

/** A failure of kubectl itself, by what it printed. */
export interface KubectlError {
  readonly kind: KubectlErrorKind;
  /** Its last line, for a log. */
  readonly line: string;
  /** What of that line tells a caller something: without kubectl's frame and the runtime's identifiers. */
  readonly reason: string;
}

/** A container that ends while an exec comes to it. */
const ENDED =
  /no running task found|cannot exec in a (?:stopped|deleted)|CONTAINER_EXITED|process already finished|process does not exist|not in running state|procReady not received|failed to find container|task \S+ not found/;

/** The first that fits counts. */
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
    // Without a word after the colon where what answers for the node is no kubelet, over SPDY.
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
 * What a failure of kubectl itself comes to, by what it printed on its standard error.
 *
 * @param describe says it for what kubectl was about; undefined where the failure has nothing to do with that
 * @returns an HttpError for what is foreseen, with kubectl's own words as its cause; an Error for the rest, which is
 *   answered as internal and logged
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

/** kubectl prints its own error last, after what its libraries log. */
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
      return new HttpError(503, "the cluster cannot be reached at the moment; try again shortly", {
        headers: { "retry-after": "1" },
      });
    case "forbidden":
      return new HttpError(
        500,
        "the cluster does not let this server do that; allow its account to create pods/exec and to get pods/log",
      );
    default:
      return new Error(`kubectl failed: ${line === "" ? "it said nothing" : line}`);
  }
}
