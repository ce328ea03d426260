import { type ProxyFolders, PUBLIC_AUTHORITIES, proxyFolders, TENANT_FILE, upstreamAuthorities } from "./layout.ts";

export interface SupervisorOptions {
  /** @default the folders of the sidecar */
  readonly folders?: ProxyFolders | undefined;
  /** The path of the workload's trust bundle, which the script updates too. @default none */
  readonly trustBundle?: string | undefined;
  /** @default `haproxy` on the path */
  readonly program?: string | undefined;
  /** @default the authorities of the image */
  readonly publicAuthorities?: string | undefined;
  /** The file with the tenant, which may change. @default the sidecar's */
  readonly tenantFile?: string | undefined;
}

/**
 * Renders the shell script that is process 1 of the sidecar. It runs HAProxy and replaces it when a volume has changed:
 * the new process takes over the sockets, while the old one serves the open connections. If something that was open is
 * closed now, the new process ends the old ones, and with them all open connections: HAProxy cannot say which of them
 * lead there.
 *
 * HAProxy reads the values of headers from its environment, which is fixed at the start of a process. So a changed
 * Secret needs a new process. HAProxy's own master cannot start it, since the master keeps its environment. If HAProxy
 * rejects the settings, the old process stays. A value that is missing or has several lines is left out, and the proxy
 * answers 503 for it.
 *
 * HAProxy's log goes through a shell that adds the tenant. It reads the tenant for each line, since a claim of a warm
 * pod starts no other HAProxy. HAProxy never waits for this shell: lines that do not fit into a full pipe are lost, but
 * counted.
 */
export function supervisorScript(options: SupervisorOptions = {}): string {
  const { folders = proxyFolders, trustBundle, program = "haproxy", publicAuthorities = PUBLIC_AUTHORITIES } = options;
  const { tenantFile = TENANT_FILE } = options;
  const { settings, run } = folders;
  return `settings=${settings} run=${run}
current= drained= stopping= seen= opened=
newline='
'
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
# A change of a volume renames its data folder; globbing sees that without a process.
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
# Whether $next lacks a line of $opened, of the file of egressObjects. The line "name *" stands for all names.
closes() {
  while IFS= read -r line; do
    case "$newline$next$newline" in *"$newline$line$newline"*) continue ;; esac
    case "$line$newline$newline$next$newline" in "name "*"$newline$newline"*"name *$newline"*) continue ;; esac
    return 0
  done <<EOF
$opened
EOF
  return 1
}
start() {
  seen=$now
  bundle ${upstreamAuthorities(folders)} ${publicAuthorities} "$settings/extra-ca.pem" || return 1
${trustBundle === undefined ? "" : `  bundle ${trustBundle} ${publicAuthorities} "$settings/extra-ca.pem" "$settings/ca.pem" || return 1\n`}  if ! why=$(${program} -c -f "$settings/haproxy.cfg" 2>&1); then
    echo "$why" >&2
    log error "the new settings cannot be used, the previous ones stay in use"
    return 1
  fi
  next=$(cat "$settings/opened.list" 2> /dev/null)
  after=-sf
  [ -z "$opened" ] || [ -z "$next" ] || ! closes || after=-st
  opened=$next takeover=
  alive "$current" && takeover="-x $run/haproxy.sock $after $drained $current"
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
    # Pass the last log lines on.
    exec 8>&-
    wait "$teller"
    exit 0
  fi
  if ! alive "$teller"; then
    log error "the log process has ended"
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
