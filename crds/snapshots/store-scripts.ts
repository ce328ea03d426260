import { awaitReceipt } from "./receipt.ts";

/** The exit code for an archive that is not there. */
export const NO_ARCHIVE = 44;

/** The exit code of a look for one that is not there, on a volume that no save has marked. */
export const UNMARKED = 45;

// Only what says that there is none is taken for none: a volume that fails must not look like a tenant without files.
const findArchive = `find_archive() {
  [ -d "$root" ] || { echo "$root is not there" >&2; exit 1; }
  size="$("$b" stat -c %s "$archive" 2>&1)" && return
  case "$size" in *"No such file or directory"*) exit "\${none:-${NO_ARCHIVE}}" ;; esac
  echo "$size" >&2
  exit 1
}`;

/**
 * What the helper pod's busybox runs, with the positional parameters busybox, root folder and then as named. Everything that changes
 * the volume is a program of its own, so that a test can end a script before and after each.
 *
 * Beside `<workload>.tar.gz` is `<workload>.tar.gz.<16 digits of its SHA-256>.json`. It is written first, and the rename of the archive is
 * the one step that replaces the old archive by the new one: whatever ends a script, the archive that is there has its metadata.
 * Metadata without its archive is of a save that did not come to its end, and goes after ten minutes.
 *
 * A write begins with deleting what other writes of the same files have sent so far, so that a write whose operator is no longer the
 * leader, and goes on after a pause, can never replace what came after it (docs/decisions/606).
 */
export const storeScripts = {
  /**
   * `<tenant> <workload> <id> <marked or empty>`; reads the archive as frames, then its SHA-256 and its metadata as a line each. Fails on
   * a volume without a mark where one is expected, and makes it otherwise.
   */
  write: script(`
workload="$4"; id="$5"; expected="$6"
dir="$root/$3"; archive="$dir/$workload.tar.gz"; partial="$archive.$id.partial"
drop() { "$b" rm -f "$partial" "$archive".????????????????.json."$id.partial"; "$b" rmdir "$dir" 2>/dev/null; }
trap 'drop; exit 143' TERM INT HUP PIPE
store() {
  [ -e "$mark" ] || [ -z "$expected" ] || { echo "the mark that was on the volume is gone, so it is another"; return 1; }
  [ -e "$mark" ] || echo "archives are kept here" > "$mark" || return 1
  "$b" mkdir -p "$dir" || return 1
  "$b" rm -f "$archive".????????.partial "$archive".????????????????.json.????????.partial || return 1
  receive > "$partial" || { echo "the archive did not arrive whole"; return 1; }
  read -r digest || return 1
  read -r metadata || return 1
  "$b" sync "$partial" || return 1
  sum="$("$b" sha256sum < "$partial")" || return 1
  sum="\${sum%% *}"
  [ "$sum" = "$digest" ] || { echo "what was written is not what was sent"; return 1; }
  beside="$archive.\${digest%????????????????????????????????????????????????}.json"
  printf '%s\\n' "$metadata" > "$beside.$id.partial" || return 1
  "$b" sync "$beside.$id.partial" || return 1
  "$b" mv -f "$beside.$id.partial" "$beside" || return 1
  "$b" mv -f "$partial" "$archive" || return 1
  "$b" sync "$dir" "$root" || return 1
  "$b" find "$dir" -maxdepth 1 -name "$workload.tar.gz.????????????????.json" ! -path "$beside" -mmin +10 -exec "$b" rm -f {} +
  return 0
}
store
code=$?
[ $code = 0 ] || drop
( exit $code )`),

  /**
   * `<tenant> <workload>`; writes the archive's size, the lines of metadata, an empty line and the archive, and ends when it has read
   * the receipt. Exit code 44: there is none.
   */
  read: script(`
archive="$root/$3/$4.tar.gz"
find_archive
exec 3< "$archive" || exit 1
size="$("$b" stat -L -c %s /proc/self/fd/3)" || exit 1
echo "$size"
"$b" cat "$archive".????????????????.json || exit 1
echo
"$b" cat <&3 || exit 1
[ "$size" = 0 ] || ${awaitReceipt}`),

  /** `<tenant> <workload>`; writes the archive's size and then the lines of metadata. Exit code 44: there is none; 45: nor a mark. */
  stat: script(`
archive="$root/$3/$4.tar.gz"
[ -e "$mark" ] || none=${UNMARKED}
find_archive
echo "$size"
exec "$b" cat "$archive".????????????????.json`),

  /**
   * Reads lines of `<id> <tenant> <workload> <bytes>` until its input ends, and answers each: `<id> none`, or `<id> unmarked` where there is no mark either, `<id> failed <why>`, or
   * `<id> found <size> <sent>`, the lines of metadata, an empty line, the archive where it has no more than those bytes, and `<id> end`.
   */
  desk: script(`
look() {
  size="$("$b" stat -L -c %s /proc/self/fd/3)" || return 1
  sent=0
  [ "$size" -gt "$most" ] || sent="$size"
  echo "$id found $size $sent"
  "$b" sed -n /./p "$archive".????????????????.json 2>/dev/null
  echo
  [ "$sent" = 0 ] || "$b" cat <&3 || exit 1
  echo "$id end"
}
while read -r id tenant workload most; do
  archive="$root/$tenant/$workload.tar.gz"
  if [ ! -d "$root" ]; then
    echo "$id failed $root is not there"
  elif size="$("$b" stat -c %s "$archive" 2>&1)"; then
    look 3< "$archive" || echo "$id failed it cannot be opened"
  else
    case "$size" in
      *"No such file or directory"*)
        if [ -e "$mark" ]; then echo "$id none"; else echo "$id unmarked"; fi ;;
      *) echo "$id failed" $size ;;
    esac
  fi
done`),

  /** `<tenant> <workload>`; writes the archive's SHA-256. */
  digest: script(`exec "$b" sha256sum < "$root/$3/$4.tar.gz"`),

  /**
   * Writes `before <size> ./<tenant>/<workload>.tar.gz` for each archive, then all lines of metadata, then
   * `after <size> <mtime> ./<tenant>/<workload>.tar.gz` for each archive, with its time in seconds since the epoch, and at the end
   * `end <lines before>`, by which a reader knows that nothing is missing.
   *
   * Archives are looked at twice, so that one that is replaced meanwhile is seen once with the metadata that is its own. What is deleted
   * between the listing of a folder and the look at a file is no failure.
   */
  list: script(`
cd "$root" || exit 1
archives() { "$b" find . -maxdepth 2 -path ./lost+found -prune -o -path './*/*.tar.gz' -exec "$b" stat -c "$1" {} +; }
records() { "$b" find . -maxdepth 2 -path ./lost+found -prune -o -path './*/*.tar.gz.????????????????.json' -exec "$b" sed -n p {} +; }
part() {
  said="$("$@" 2>&1 >&3)" && return
  other="$(echo "$said" | "$b" grep -v 'No such file or directory$')"
  [ -n "$said" ] && [ -z "$other" ] && return
  echo "\${other:-$1 was ended}" >&2
  exit 1
}
{
  part archives 'before %s %n'
  part records
  part archives 'after %s %Y %n'
  echo whole
} 3>&1 | "$b" awk '$0 == "whole" { whole = 1; next } { print } END { if (!whole) exit 1; print "end " NR - 1 }'`),

  /**
   * `<tenant> <workload> <sha256 or empty>`; deletes the archive, with a SHA-256 only when it is that one, without it also what an
   * interrupted save left of the same tenant's files. One that has replaced it since is left alone, with what is recorded of it. Writes `deleted` when the archive is gone. Exit code 44: there is none.
   */
  delete: script(`
dir="$root/$3"; archive="$dir/$4.tar.gz"
if [ -z "$5" ]; then
  "$b" rm -f "$archive".????????.partial "$archive".????????????????.json.????????.partial || exit 1
fi
find_archive
if [ -n "$5" ]; then
  exec 3< "$archive" || exit 1
  sum="$("$b" sha256sum <&3)" || exit 1
  [ "\${sum%% *}" = "$5" ] || exit 44
  [ "$("$b" stat -L -c %i /proc/self/fd/3)" = "$("$b" stat -c %i "$archive")" ] || exit 44
fi
set -- "$archive".????????????????.json
"$b" rm -f "$archive" || exit 1
"$b" rm -f "$@"
"$b" sync "$dir"
"$b" rmdir "$dir" 2>/dev/null
echo deleted`),

  /** Writes the blocks that are free, those that there are, and the bytes of one. */
  space: script(`exec "$b" stat -f -c '%a %b %S' "$root"`),

  /** Deletes what saves left behind that were ended more than a day ago. */
  tidy: script(`
cd "$root" || exit 1
exec "$b" find . -mindepth 2 -maxdepth 2 -name '*.partial' -mmin +1440 -exec "$b" rm -f {} +`),
} as const;

function script(text: string): string {
  return `b="$1"; root="$2"; mark="$root/.marked"; umask 077\n${findArchive}\n${text.trim()}`;
}
