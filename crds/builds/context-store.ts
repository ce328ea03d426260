import { awaitAcknowledgement } from "../snapshots/acknowledgement.ts";
import { NO_ARCHIVE } from "../snapshots/store-scripts.ts";

/** The exit code for a context that is not there; the one for an archive, whose reader reads both. */
export const NO_CONTEXT = NO_ARCHIVE;

/** What follows the last byte of an upload: whoever ends without it was cut off. */
export const UPLOAD_END = "end\n";

/** Contexts leave this share of the volume free, twice what large archives leave to small ones. */
const FREE_SHARE = 10;
/** After so many bytes the room is looked at again. */
const PIECE_BYTES = 16 * 1024 * 1024;

/**
 * What the helper pod's busybox runs to keep build contexts, with the positional parameters of `storeCommand`: busybox,
 * root folder, and then as named. A workload's name is a legal one, and so begins with no dot and holds no slash.
 *
 * A context is `.contexts/<workload>/<sha256>`. No tenant's id begins with a dot, so no script for archives touches it;
 * only `tidy` finds an upload that was left behind, by its name `.<id>.partial`.
 *
 * It comes in two steps: `receive` writes it under a name of its own and tells its SHA-256, and only when the sender
 * has compared that does `keep` give it its name. So whatever ends either of them, nothing that did not arrive whole is
 * ever found, and two uploads at once know nothing of each other.
 */
export const contextScripts = {
  /**
   * `<workload> <id> <most bytes> <bytes that the volume was asked for with, or 0>`; reads the context, what ends an
   * upload, and the end of its input. Writes one line: `received <sha256> <bytes>`, `full` where the volume has no room
   * for it, `large` where it has more bytes, or `failed: <why>`. Then it goes on reading, since the end of a command
   * that leaves input unread is not reported.
   */
  receive: script(`
id="$4"; most="$5"; asked="$6"; partial="$dir/.$id.partial"
drop() { "$b" rm -f "$partial"; tidy_up; }
trap 'drop; exit 143' TERM INT HUP PIPE
has_room() {
  set -- $("$b" stat -f -c '%a %b %S' "$root") && [ $# = 3 ] || return 1
  free=$(($1 * $3)); total=$(($2 * $3))
  [ "$asked" = 0 ] || [ "$asked" -gt "$total" ] || total="$asked"
  [ $((free - ${PIECE_BYTES})) -ge $((total / ${FREE_SHARE})) ]
}
take() {
  tries=0
  until "$b" mkdir -p "$dir" && "$b" touch "$partial"; do
    # The end of another upload may take an empty folder away.
    tries=$((tries + 1)); [ $tries -lt 10 ] || return 1
  done 2> /dev/null
  had=0
  while :; do
    has_room || { answer=full; return 1; }
    "$b" dd bs=1048576 count=$((${PIECE_BYTES} / 1048576)) iflag=fullblock status=none >> "$partial" || return 1
    has="$("$b" stat -c %s "$partial")" || return 1
    [ "$has" -le $((most + ${UPLOAD_END.length})) ] || { answer=large; return 1; }
    [ "$has" = $((had + ${PIECE_BYTES})) ] || break
    had="$has"
  done
  [ "$("$b" tail -c ${UPLOAD_END.length} "$partial")" = ${UPLOAD_END.trim()} ] || { answer="failed: it was cut off"; return 1; }
  has=$((has - ${UPLOAD_END.length}))
  "$b" truncate -s "$has" "$partial" && "$b" sync "$partial" || return 1
  sum="$("$b" sha256sum < "$partial")" || return 1
  answer="received \${sum%% *} $has"
}
answer="failed: $dir cannot be written"
take || drop
echo "$answer"
"$b" cat > /dev/null
`),

  /**
   * `<workload> <id> <sha256> <another, or nothing>`; gives what was received its name, deletes the workload's contexts
   * but that and the other, and writes `kept`. One that is not two minutes old may be of an upload that is about to be
   * named, and stays. Exit code 44: it is not there any more.
   */
  keep: script(`
[ -e "$dir/.$4.partial" ] || exit ${NO_CONTEXT}
"$b" mv -f "$dir/.$4.partial" "$dir/$5" || exit 1
"$b" sync "$dir" "$root/.contexts" || exit 1
"$b" find "$dir" -maxdepth 1 -type f '(' -name '.*' -mmin +60 -o ! -name '.*' ! -name "$5" ! -name "$6" -mmin +1 ')' -exec "$b" rm -f {} + || exit 1
echo kept`),

  /** `<workload> <id>`; deletes what was received. */
  drop: script(`
"$b" rm -f "$dir/.$4.partial" || exit 1
tidy_up`),

  /**
   * `<workload> <sha256>`; writes the context's size, an empty line and the context, and ends when it has read the
   * acknowledgement. Exit code 44: there is none.
   */
  read: script(`
size="$("$b" stat -c %s "$dir/$4" 2>&1)" || {
  case "$size" in *"No such file or directory"*) exit ${NO_CONTEXT} ;; esac
  echo "$size" >&2
  exit 1
}
exec 3< "$dir/$4" || exit 1
size="$("$b" stat -L -c %s /proc/self/fd/3)" || exit 1
echo "$size"
echo
"$b" cat <&3 || exit 1
[ "$size" = 0 ] || ${awaitAcknowledgement}`),

  /** `<workload>`; deletes all contexts of the workload, and what is received of them at the moment. */
  erase: script(`
"$b" rm -rf "$dir" || exit 1
tidy_up
[ ! -e "$dir" ] || exit 1
echo erased`),
} as const;

function script(text: string): string {
  return `b="$1"; root="$2"; umask 077; dir="$root/.contexts/$3"
[ -d "$root" ] || { echo "$root is not there" >&2; exit 1; }
tidy_up() { "$b" rmdir "$dir" "$root/.contexts" 2> /dev/null; :; }
${text.trim()}`;
}
