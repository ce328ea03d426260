import { type ProxyFolders, PUBLIC_AUTHORITIES, proxyFolders, TENANT_FILE, upstreamAuthorities } from "./layout.ts";

export interface SupervisorOptions {
  /** @default those of the sidecar */
  readonly folders?: ProxyFolders | undefined;
  /** Where the workload's trust bundle is written, so that it follows too. @default nowhere */
  readonly trustBundle?: string | undefined;
  /** @default `haproxy` on the path */
  readonly program?: string | undefined;
  /** @default those of the image */
  readonly publicAuthorities?: string | undefined;
  /** Holds the tenant, and may change. @default that of the sidecar */
  readonly tenantFile?: string | undefined;
}

/**
 * Renders the shell script that is the sidecar's process 1: runs HAProxy, and puts another in its place when a volume
 * changed, which takes over the sockets while the old one serves what is open.
 *
 * HAProxy has the values of headers in its environment, which is fixed when a process starts; so a changed Secret needs
 * a new process, and its own master, which keeps its environment, could not make it. Settings that HAProxy finds wrong
 * leave the old process. A value that is missing, or not on one line, is left out, and the proxy answers 503 in its
 * place.
 *
 * What HAProxy logs goes through a shell that adds the tenant, read at each line, since a claim of a warm pod starts no
 * other HAProxy. HAProxy never waits for it: lines that a full pipe does not take are lost, and counted all the same.
 */
export function supervisorScript(options: SupervisorOptions = {}): string {
  const { folders = proxyFolders, trustBundle, program = "haproxy", publicAuthorities = PUBLIC_AUTHORITIES } = options;
  const { tenantFile = TENANT_FILE } = options;
  const { settings, run } = folders;
  return `settings=${settings} run=${run}
current= drained= stopping= seen=
log() { echo "{\\"level\\":\\"$1\\",\\"msg\\":\\"$2\\"}"; }
alive() {
  state=Z
  [ -n "$1" ] && read -r _ _ state _ 2> /dev/null < "/proc/$1/stat"
  [ "$state" != Z ]
}
tell() {
  while IFS= read -r line; do
    tenant=
    [ -r ${tenantFile} ] && read -r tenant < ${tenantFile}
    case $tenant in *[!-._a-zA-Z0-9]*) tenant= ;; esac
    case $line in
      '{'*) printf '{"tenant":"%s",%s\\n' "$tenant" "\${line#?}" ;;
      *) printf '%s\\n' "$line" ;;
    esac
  done
}
# A change of a volume gives its folder of data another name; globbing sees that without a process.
look() { set -- "$settings"/..[0-9]*; now="$*"; }
values() {
  while read -r name file; do
    value=
    [ -f "$settings/$file" ] && value=$(cat "$settings/$file")
    value=\${value%"$(printf '\\r')"}
    case $value in
      '') log warn "the value of $file is missing: its requests are answered with 503" ;;
      *[[:cntrl:]]*) log warn "the value of $file has a control character: its requests are answered with 503" ;;
      *) export "$name=$value" ;;
    esac
  done < "$settings/values.list"
}
bundle() { # file, certificates…
  bundle=$1; shift
  cat "$@" > "$bundle.next" && chmod 0444 "$bundle.next" && mv -f "$bundle.next" "$bundle"
}
start() {
  seen=$now
  bundle ${upstreamAuthorities(folders)} ${publicAuthorities} "$settings/extra-ca.pem" || return 1
${trustBundle === undefined ? "" : `  bundle ${trustBundle} ${publicAuthorities} "$settings/extra-ca.pem" "$settings/ca.pem" || return 1\n`}  if ! why=$(${program} -c -f "$settings/haproxy.cfg" 2>&1); then
    echo "$why" >&2
    log error "the settings cannot be used, what ran goes on"
    return 1
  fi
  takeover=
  alive "$current" && takeover="-x $run/haproxy.sock -sf $drained $current"
  (
    values
    exec ${program} -db -f "$settings/haproxy.cfg" $takeover >&8 8>&- 9>&-
  ) &
  drained="$drained $current" current=$!
}
prune() {
  set --
  for pid in $drained; do alive "$pid" && set -- "$@" "$pid"; done
  while [ $# -gt 3 ]; do kill -TERM "$1"; shift; done
  drained=$*
}
stop() {
  stopping=1
  for pid in $drained $current; do alive "$pid" && kill -USR1 "$pid"; done
}
read -r _ 2> /dev/null < /proc/net/if_inet6 && export TENANCY_IPV6=1
trap stop TERM INT
rm -f "$run/tick" "$run/log" "$run"/*.sock && mkfifo "$run/tick" "$run/log" && exec 9<> "$run/tick" || exit 1
tell < "$run/log" 9>&- &
teller=$!
exec 8> "$run/log"
look
start || exit 1
while :; do
  read -r -t 1 _ <&9
  prune
  if [ -n "$stopping" ]; then
    alive "$current" || [ -n "$drained" ] && continue
    # What was logged last is told yet.
    exec 8>&-
    wait "$teller"
    exit 0
  fi
  if ! alive "$teller"; then
    log error "nobody tells what haproxy logs"
    exit 1
  fi
  if ! alive "$current"; then
    wait "$current"
    log error "haproxy ended with status $?"
    exit 1
  fi
  look
  [ "$now" = "$seen" ] || start
done`;
}
