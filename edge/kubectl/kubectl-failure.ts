import { HttpError } from "../http-error.ts";
import { instanceNotFound } from "../instances/instance-not-found.ts";
import { quote } from "../quote.ts";

const RETRY = { "retry-after": "1" };

/** What kubectl says, by the status that it comes to; the first that fits counts. */
const meanings: readonly [RegExp, (context: { name: string; line: string }) => HttpError][] = [
  [
    /previous terminated container .* not found/,
    ({ name }) => new HttpError(404, `instance ${quote(name)} has no previous run: its container never restarted`),
  ],
  [/pods? "[^"]*" not found/, ({ name }) => instanceNotFound(name)],
  [
    /OCI runtime exec failed|executable file not found|failed to start exec|exec format error/,
    ({ line }) =>
      new HttpError(
        400,
        `body.command: cannot be started in the instance: ${reasonOf(line)}; check the program's name`,
      ),
  ],
  [
    /waiting to start|pod does not exist|ContainerCreating|PodInitializing|container not found|container .* is not (?:running|valid|available)|completed pod|does not have a host assigned|is not running|is terminated/,
    ({ name, line }) => new HttpError(409, `instance ${quote(name)} does not run at the moment: ${reasonOf(line)}`),
  ],
  [
    /error dialing backend|Get "https:\/\/[^"]*containerLogs|could not find the requested resource \( pods\/log/,
    ({ name }) => new HttpError(503, `the node of instance ${quote(name)} cannot be reached`, { headers: RETRY }),
  ],
  [
    /Unable to connect to the server|The connection to the server|currently unable to handle|i\/o timeout|TLS handshake|ServiceUnavailable/,
    () => new HttpError(503, "the cluster cannot be reached at the moment; try again shortly", { headers: RETRY }),
  ],
  [
    /error stream protocol|unable to upgrade connection|connection reset|unexpected EOF|lost connection/,
    ({ name }) =>
      new HttpError(503, `the connection to instance ${quote(name)} broke; a command may have run`, { headers: RETRY }),
  ],
  [
    /\(Forbidden\)|\(Unauthorized\)|must be logged in/,
    () =>
      new HttpError(
        500,
        "the cluster does not let this server do that; allow its account to create pods/exec and to get pods/log",
      ),
  ],
];

/**
 * What a failure of kubectl itself comes to, by what it printed (spec.md, section 7).
 *
 * @returns an HttpError for what is foreseen, with kubectl's own words as its cause; an Error for the rest, which is answered as
 *   internal and logged
 */
export function kubectlFailure(stderr: string, { name }: { name: string }): Error {
  const line = lastLine(stderr);
  for (const [pattern, meaning] of meanings) {
    if (!pattern.test(stderr)) continue;
    const error = meaning({ name, line });
    return new HttpError(error.status, error.message, { headers: error.headers, cause: new Error(line) });
  }
  return new Error(`kubectl failed: ${line === "" ? "it said nothing" : line}`);
}

/** kubectl's verdict comes last, after what its libraries log. */
function lastLine(stderr: string): string {
  return stderr.trimEnd().split("\n").at(-1)?.trim() ?? "";
}

/** The part of a verdict that tells the caller something: without kubectl's frame and the runtime's identifiers. */
function reasonOf(line: string): string {
  const program = /exec: ("(?:[^"\\]|\\.)*": [^:]+)/.exec(line)?.[1];
  if (program !== undefined) return program;
  return line
    .replace(/^error: /i, "")
    .replace(/^Error from server(?: \(\w+\))?: /, "")
    .replace(/^unable to upgrade connection: /, "");
}
