import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A program that behaves as kubectl does, without a cluster. */
export interface FakeKubectl {
  readonly command: string;
  /** The parameters of each call but those that ask for the version, a parameter a line. */
  calls(): string[][];
  /** Process ids of the calls, also of ended ones. */
  pids(): number[];
  remove(): void;
}

/**
 * Writes a kubectl that runs what `exec` asks for on this machine, ends as kubectl ends, and fails for pods that are
 * named after a failure; `logs` prints a few lines, of a pod named `endless` without end, and with `--follow` goes on
 * for ever unless the pod is named `brief`. One named `quiet` prints nothing.
 */
export function fakeKubectl({ version = "v1.30.1" }: { version?: string } = {}): FakeKubectl {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-kubectl-"));
  const command = join(folder, "kubectl");
  writeFileSync(
    command,
    `#!/bin/bash
if [ "$1" = version ]; then echo '{ "clientVersion": { "gitVersion": "${version}" } }'; exit 0; fi
{ printf '%s\\n' "$@"; echo ----; } >> ${folder}/calls
echo $$ >> ${folder}/pids
verb=$3; pod=$4
case $pod in
  gone) echo 'Error from server (NotFound): pods "gone" not found' >&2; exit 1;;
  starting) echo 'Error from server (BadRequest): container "workload" in pod "starting" is waiting to start: ContainerCreating' >&2; exit 1;;
  ended) echo 'error: unable to upgrade connection: container not found ("workload")' >&2; exit 1;;
  first-run) echo 'Error from server (BadRequest): previous terminated container "workload" in pod "first-run" not found' >&2; exit 1;;
  no-node) echo 'Error from server: error dialing backend: dial tcp 10.1.2.3:10250: connect: connection refused' >&2; exit 1;;
  no-kubelet) echo 'Error from server (NotFound): the server could not find the requested resource ( pods/log no-kubelet)' >&2; exit 1;;
  no-answer) echo 'Error from server: ' >&2; exit 1;;
  broken) echo 'error: error stream protocol error: unknown error' >&2; exit 1;;
  not-yet) echo 'error: unable to upgrade connection: pod does not exist' >&2; exit 1;;
  no-cluster) echo 'E1121 12:57:21.4 memcache.go:265] "Unhandled Error"' >&2
    echo 'The connection to the server 10.9.9.9:6443 was refused - did you specify the right host or port?' >&2; exit 1;;
  forbidden) echo 'Error from server (Forbidden): pods "forbidden" is forbidden: User "system:serviceaccount:x:y" cannot create resource "pods/exec"' >&2; exit 1;;
  no-program) echo 'error: Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "0123abcd": OCI runtime exec failed: exec failed: unable to start container process: exec: "nope": executable file not found in $PATH: unknown' >&2; exit 1;;
  ending) echo 'error: Internal error occurred: error executing command in container: failed to exec in container: failed to load task: no running task found: task 4e04 not found: not found' >&2; exit 1;;
  stopped) echo 'error: Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "0123": OCI runtime exec failed: exec failed: cannot exec in a stopped container: unknown' >&2; exit 1;;
  strange) echo 'error: something new' >&2; exit 1;;
esac
if [ "$verb" = exec ]; then
  while [ "$1" != -- ]; do shift; done
  shift
  "$@"; code=$?
  if [ $code != 0 ]; then echo "command terminated with exit code $code" >&2; fi
  exit $code
fi
if [ "$pod" = quiet ]; then exec sleep 60; fi
echo "line of $pod"
if [ "$pod" = endless ]; then exec yes; fi
case "$*" in *--follow*)
  if [ "$pod" = brief ]; then exit 0; fi
  if [ "$pod" = breaks ]; then echo 'error: unexpected EOF' >&2; exit 1; fi
  exec sleep 60;;
esac
`,
  );
  chmodSync(command, 0o755);
  return {
    command,
    calls: () =>
      read("calls")
        .split("----\n")
        .slice(0, -1)
        .map((call) => call.split("\n").slice(0, -1)),
    pids: () => read("pids").split("\n").filter(Boolean).map(Number),
    remove: () => rmSync(folder, { recursive: true }),
  };

  function read(name: string): string {
    try {
      return readFileSync(join(folder, name), "utf8");
    } catch {
      return "";
    }
  }
}
