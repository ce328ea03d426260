import { programContainer } from "../../crds/claims/claim-pod.ts";
import type { PodSpec, Probe } from "../../crds/kubernetes.ts";
import { literally } from "../literally.ts";
import { TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import { LAUNCHER_FOLDER } from "./launch-command.ts";
import { PROGRAM_FUNCTION } from "./shell-functions.ts";

/** What shows that the program is healthy. Without a port, that it has run for 2 s. */
export interface HealthCheck {
  readonly port?: number | undefined;
  /** Of a GET request. @default a connection is enough */
  readonly path?: string | undefined;
  /** A command, in the place of a port, that ends with 0. */
  readonly command?: readonly string[] | undefined;
  /** Whether it is healthy as soon as it runs. @default false */
  readonly isUnproven?: boolean;
}

/** Name of the check in its own command line. */
const TITLE = "tenancy-health";
/** In the place of the path, which counts only with a port. */
const UNPROVEN = "unproven";

/** Seconds that a program has for its answer, and the command of a check for its end. */
export const ANSWER_SECONDS = 4;

/**
 * Shell functions for requests to the program. `$b` is busybox. They leave no process behind: a program that is stopped
 * would be waited for until that ends.
 *
 * - `find_host` sets `$host` to the pod's own address.
 * - `request` sends a request to `$host`, `$port` and `$path`, and sets `$answer` to the status of its response, or to
 *   `none`; it is empty without a connection. Its parameters are the method, the seconds for all of it, and optionally
 *   a file with a JSON text.
 *
 * It reads the response to its end, up to 64 KiB: an unread rest would reset the connection, which ends some programs.
 */
export const requestFunction = `find_host() {
  host=127.0.0.1
  read -r own < /proc/sys/kernel/hostname
  while read -r address name rest; do
    [ "$name" != "$own" ] || { host="$address"; break; }
  done < /etc/hosts
}
request() {
  at="$host:$port"
  case "$host" in *:*) at="[$host]:$port" ;; esac
  read -r up idle < /proc/uptime
  answer=$("$b" nc -w 2 "$host" "$port" -e "$b" sh -c '
    last="$6"
    in_time() { read -r up idle < /proc/uptime && [ "\${up%.*}" -le "$last" ]; }
    printf "%s %s HTTP/1.1\\r\\nHost: %s\\r\\nUser-Agent: tenancy-probe\\r\\nAccept: */*\\r\\nConnection: close\\r\\n" "$1" "$2" "$3"
    [ -z "$5" ] || printf "Content-Type: application/json\\r\\nContent-Length: %s\\r\\n" "$("$0" wc -c < "$5")"
    printf "\\r\\n"
    [ -z "$5" ] || "$0" cat "$5"
    while in_time && read -r -t "$4" -n 1024 version status rest; do
      case "$status" in 1[0-9][0-9]*) ;; *) break ;; esac
      while in_time && read -r -t "$4" line && [ "\${#line}" -gt 1 ]; do :; done
    done
    cr=$(printf "\\r")
    status="\${status%"$cr"}"
    printf "%.4s" "\${status:-none}" >&3
    pieces=0
    while [ "$pieces" -lt 64 ] && in_time && read -r -t 1 -n 1024 line; do pieces=$((pieces + 1)); done
    ' "$b" "$1" "$path" "$at" "$2" "$3" "$((\${up%.*} + $2))" 3>&1)
} 2> /dev/null`;

/**
 * Shell functions with one that makes the check `$port` and `$path` as the kubelet would: at the pod's own address, and
 * with its rule for the status of a response, but that a redirect is not followed. If it has parameters, they are a
 * command to run in their place, in the folder `$home`. Where it fails, `$why` says why.
 *
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#probe-check-methods
 */
export const healthyFunction = `${requestFunction}
${PROGRAM_FUNCTION}
healthy() {
  if [ "$#" -gt 0 ]; then
    program="$(program_of "$1")" || { why="$program"; return 1; }
    shift
    (cd "$home" && "$b" timeout -s KILL ${ANSWER_SECONDS} "$program" "$@"; exit "$?") < /dev/null > /dev/null && return
    why="the command of spec.health.exec ended with $?"
    return 1
  fi
  [ -n "$port" ] || return 0
  find_host
  if [ -n "$path" ]; then
    request GET ${ANSWER_SECONDS}
    case "$answer" in
      [23][0-9][0-9]) return 0 ;;
      "") why="connection refused on port $port" ;;
      none) why="no answer to GET $path on port $port" ;;
      *) why="GET $path on port $port is answered with $answer" ;;
    esac
    return 1
  fi
  why="connection refused on port $port"
  "$b" nc -w 2 "$host" "$port" -e "$b" true
} 2> /dev/null`;

/** Until the pod is claimed, the launcher that waits is what is healthy. */
const script = `home="$PWD"; b="$1"; d="$2"; port="$3"; path="$4"; shift 4
${healthyFunction}
[ -e "$d"/claimed ] || { [ -p "$d"/wake ]; exit; }
healthy "$@" || { echo "$why"; exit 1; }`;

/** The check of a probe, for a program that starts when its pod is claimed. */
export function healthProbe({ port, path, command: own = [], isUnproven = false }: HealthCheck): Pick<Probe, "exec"> {
  // As the kubelet requests it.
  const encoded = path?.replace(/[^!-~]/gu, encodeURIComponent) ?? "";
  const words = [TOOLS_BUSYBOX, `/${LAUNCHER_FOLDER}`, String(port ?? ""), isUnproven ? UNPROVEN : encoded, ...own];
  const command = [TOOLS_BUSYBOX, "sh", "-c", script, TITLE, ...words];
  return { exec: { command: command.map(literally) } };
}

/** The check of a pod's program, from its probe: its workload may have changed since. */
export function healthOf(spec: PodSpec): HealthCheck {
  const { startupProbe } = programContainer(spec) ?? {};
  const [, , , , title, , , ...words] = startupProbe?.exec?.command ?? [];
  if (title !== TITLE) return {};
  const [port = "", path = "", ...command] = words.map((word) => word.replaceAll("$$", "$"));
  if (command.length > 0) return { command };
  if (port === "") return path === UNPROVEN ? { isUnproven: true } : {};
  return { port: Number(port), ...(path !== "" && { path }) };
}
