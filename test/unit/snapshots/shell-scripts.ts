/** The exit code for an archive that is not there. */
const NO_ARCHIVE = 44;

/** How many archives are kept beside the newest one of a tenant and workload. */
const KEPT_VERSIONS = 3;

/** How many digits of its SHA-256 name an archive in names of files. */
const DIGITS = 16;
const digits = "?".repeat(DIGITS);

// Only "No such file or directory" counts as no archive: a volume that fails must not look like a tenant without files.
const findArchive = `# Tenant, workload, and the digits of an older version or nothing.
place() {
  dir="$root/$1"; versions="$dir/.versions/$2"; archive="$dir/$2.tar.gz"
  [ -z "$3" ] || archive="$versions/$3.tar.gz"
}
# Sets $size, to nothing where there is no archive.
look_up() {
  size="$("$b" stat -c %s "$archive" 2>&1)" && return
  case "$size" in *"No such file or directory"*) size=; return ;; esac
  echo "$size" >&2
  return 1
}
find_archive() {
  [ -d "$root" ] || { echo "$root is not there" >&2; exit 1; }
  look_up || exit 1
  [ -n "$size" ] || exit "\${none:-${NO_ARCHIVE}}"
}
# Sets $now to the first digits of the archive's SHA-256, or to none: from what is recorded, where one record alone fits its size.
identify() {
  look_up || return 1
  now=none
  [ -n "$size" ] || return 0
  fitting=0
  for record in "$archive".${digits}.json; do
    "$b" grep -q ""sizeBytes":$size," "$record" 2>/dev/null || continue
    fitting=$((fitting + 1)); now="\${record#"$archive".}"; now="\${now%.json}"
  done
  [ $fitting = 1 ] && return
  now="$("$b" sha256sum < "$archive")" || return 1
  now="\${now%"\${now#${digits}}"}"
}
# Whether the folder $1 has an entry that is called exactly $2: on a volume that ignores case, another can be there in its place.
is_exact() {
  wanted="$1/$2"; first="\${2%"\${2#?}"}"
  set -- "$1"/[$first]"\${2#?}"
  [ "$1" = "$wanted" ] && [ ! -L "$1" ]
}`;

/**
 * A lock on all of a tenant's archives, for the few steps that look at what is there and then change it.
 *
 * Its holder is a process of the helper pod, and one that was killed holds nothing any more: who finds that takes the
 * lock over, by making the link that is named for it, which only one can. A symbolic link is made with its target in
 * one step, also where no block is free. busybox has no `flock` everywhere
 * (docs/decisions/snapshots.md#archives-change-under-a-lock).
 */
const lockTenant = `started() {
  start=; state=
  { read -r state < "/proc/$1/stat"; } 2>/dev/null
  set -- \${state##*) }
  [ "\${1:-Z}" = Z ] || start="\${20}"
}
read_lock() { held_by="$("$b" readlink "$1")"; }
take() { said="$("$b" ln -sn "$me" "$1" 2>&1)"; }
# One of another machine is a pod's that was replaced, and its script is killed after a minute at the latest.
is_gone() {
  case "$held_by" in
    "$boot".*) pid="\${held_by#*.}"; pid="\${pid%.*}"; started "$pid"; [ "$boot.$pid.$start" != "$held_by" ] ;;
    *) [ -n "$("$b" find "$1" -mmin +1 2>/dev/null)" ] ;;
  esac
}
lock() {
  read -r boot < /proc/sys/kernel/random/boot_id
  boot="\${boot%%-*}"; started $$; me="$boot.$$.$start"; tries=0
  until take "$dir/.lock"; do
    at="$dir/.lock"; read_lock "$at"; oldest="$held_by"
    # One that was given back since is not there; where that is so again and again, there can be none.
    [ -n "$oldest" ] || tries=$((tries + 1))
    [ $tries -lt 20 ] || { echo "the lock of $dir cannot be taken: $said" >&2; return 1; }
    [ -d "$dir" ] || return 1
    while [ -n "$held_by" ] && [ -L "$dir/.lock.$held_by" ]; do at="$dir/.lock.$held_by"; read_lock "$at"; done
    next="$dir/.lock.$held_by"
    if [ -n "$held_by" ] && is_gone "$at" && take "$next"; then
      # One that was given back meanwhile has another holder, or none.
      read_lock "$dir/.lock"
      [ "$held_by" != "$oldest" ] || break
      "$b" rm -f "$next"
    fi
    "$b" sleep 0.1
  done
  locked=1
}
unlock() {
  [ -n "$locked" ] || return 0
  locked=
  "$b" rm -f "$dir/.lock"
  "$b" rm -f "$dir"/.lock.*
}`;

/**
 * What the helper pod ran before it had a program, with the positional parameters busybox, root folder and then as
 * named: an update leaves a moment in which both change a volume, and what they wrote is there afterwards.
 */
export const storeScripts = {
  /**
   * `<tenant> <workload> <id> <marked or empty> <16 digits, none or empty> <keep or empty>`; reads the archive as
   * frames, then its SHA-256 and its metadata as a line each. Fails on a volume without a mark where one is expected,
   * and makes it otherwise; fails where another archive is there than the one named. With `keep`, that one becomes an
   * older version.
   */
  write: script(
    `
place "$3" "$4" ""
tenant="$3"; workload="$4"; id="$5"; expected="$6"; before="$7"; keep="$8"
partial="$archive.$id.partial"
drop() {
  unlock
  "$b" rm -f "$partial" "$archive".${digits}.json."$id.partial" "$versions"/*."$id.partial"
  "$b" rmdir "$versions" "$dir/.versions" "$dir" 2>/dev/null
}
trap 'drop; exit 143' TERM INT HUP PIPE
store() {
  [ -e "$mark" ] || [ -z "$expected" ] || { echo "the mark that was on the volume is gone, so it is another"; return 1; }
  [ -e "$mark" ] || echo "archives are kept here" > "$mark" || return 1
  tries=0
  until "$b" mkdir -p "$dir" && is_exact "$root" "$tenant"; do
    [ ! -d "$dir" ] || { echo "the volume ignores case, and another tenant's folder has the place of $dir"; return 1; }
    # A save that failed took its empty folder away.
    tries=$((tries + 1)); [ $tries -lt 10 ] || { echo "$dir cannot be made"; return 1; }
  done
  "$b" rm -f "$archive".????????.partial "$archive".${digits}.json.????????.partial || return 1
  receive > "$partial" || { echo "the archive did not arrive whole"; return 1; }
  read -r digest || return 1
  read -r metadata || return 1
  "$b" sync "$partial" || return 1
  sum="$("$b" sha256sum < "$partial")" || return 1
  sum="\${sum%% *}"
  [ "$sum" = "$digest" ] || { echo "what was written is not what was sent"; return 1; }
  beside="$archive.\${digest%"\${digest#${digits}}"}.json"
  printf '%s\\n' "$metadata" > "$beside.$id.partial" || return 1
  "$b" sync "$beside.$id.partial" || return 1
  lock || return 1
  commit
}
commit() {
  identify || return 1
  [ -z "$before" ] || [ "$now" = "$before" ] || { echo "$archive is another than when this save began ($now, not $before)"; return 1; }
  [ -z "$keep" ] || [ "$now" = none ] || keep_version || return 1
  "$b" mv -f "$beside.$id.partial" "$beside" || return 1
  "$b" mv -f "$partial" "$archive" || return 1
  "$b" sync "$dir" "$root" || return 1
  "$b" find "$dir" -maxdepth 1 -name "$workload.tar.gz.${digits}.json" ! -path "$beside" -mmin +10 -exec "$b" rm -f {} +
  [ -z "$keep" ] || [ "$now" = none ] || prune
  return 0
}
# Some volumes have no hard links.
link() { "$b" ln -f "$1" "$2" 2>/dev/null || { "$b" cp -p "$1" "$2.$id.partial" && "$b" mv -f "$2.$id.partial" "$2"; }; }
keep_version() {
  "$b" mkdir -p "$versions" || return 1
  older="$versions/$now.tar.gz"
  [ ! -e "$archive.$now.json" ] || link "$archive.$now.json" "$older.$now.json" || return 1
  link "$archive" "$older" || return 1
  "$b" sync "$versions" "$dir/.versions" "$dir"
}
prune() {
  "$b" awk -v kept="/$now.tar.gz." 'match($0, /"createdAt":"[^"]*/) && !index(FILENAME, kept) {
    print substr($0, RSTART + 13, RLENGTH - 13), FILENAME
  }' "$versions"/*.tar.gz.${digits}.json | "$b" sort -r | "$b" tail -n +${KEPT_VERSIONS} | while read -r _ record; do
    "$b" rm -f "\${record%.${digits}.json}" "$record"
  done
}
store
code=$?
[ $code = 0 ] || drop
unlock
( exit $code )`,
    { locks: true },
  ),

  /** `<tenant> <workload> <version or empty>`; writes the archive's SHA-256. */
  digest: script(`
place "$3" "$4" "$5"
exec "$b" sha256sum < "$archive"`),

  /**
   * `<folder> <depth>`, `.` and 2 for the newest archives of all tenants, 4 with older versions, `./<tenant>` and 3 for
   * all of one tenant. Writes `before <size> ./<tenant>/<workload>.tar.gz` for each archive, then all lines of
   * metadata, then `after <size> <mtime> ./<tenant>/<workload>.tar.gz` for each archive, with its time in seconds since
   * the epoch, and at the end `end <lines before>`, by which a reader knows that nothing is missing.
   *
   * Archives are looked at twice, so that one that is replaced meanwhile is seen once with the metadata that is its
   * own. What is deleted between the listing of a folder and the look at a file is no failure. Build contexts
   * (crds/builds/context-store.ts) are no archives, whatever a workload is called.
   */
  list: script(`
cd "$root" || exit 1
from="$3"; depth="$4"
archives() { "$b" find "$from" -maxdepth $depth -path ./lost+found -prune -o -path ./.contexts -prune -o -path './*/*.tar.gz' -exec "$b" stat -c "$1" {} +; }
records() { "$b" find "$from" -maxdepth $depth -path ./lost+found -prune -o -path ./.contexts -prune -o -path './*/*.tar.gz.${digits}.json' -exec "$b" sed -n p {} +; }
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
   * `<tenant> <workload> <16 digits or empty> <seconds or empty>`; deletes the archive with its older versions, with
   * digits only when it is that one, with seconds only when nothing has touched it for so long; without digits also
   * what an interrupted save left of the same tenant's files. Writes `deleted` when the archive is gone. Exit code 44:
   * there is none.
   */
  delete: script(
    `
place "$3" "$4" ""
if [ -z "$5" ]; then
  "$b" rm -f "$archive".????????.partial "$archive".${digits}.json.????????.partial || exit 1
  [ ! -d "$versions" ] || none=go-on
fi
[ -n "$none" ] || find_archive
is_exact "$root" "$3" || exit ${NO_ARCHIVE}
lock || { [ -d "$dir" ] && exit 1; exit ${NO_ARCHIVE}; }
trap unlock EXIT
identify || exit 1
[ -z "$5" ] || [ "$now" = "$5" ] || exit ${NO_ARCHIVE}
[ -z "$6" ] || [ $(($("$b" date +%s) - $("$b" stat -c %Y "$archive"))) -ge "$6" ] || exit ${NO_ARCHIVE}
set -- "$archive".${digits}.json
"$b" rm -rf "$versions" || exit 1
"$b" rmdir "$dir/.versions" 2>/dev/null
"$b" rm -f "$archive" || exit 1
"$b" rm -f "$@"
"$b" sync "$dir"
unlock
"$b" rmdir "$dir" 2>/dev/null
echo deleted`,
    { locks: true },
  ),
} as const;

function script(text: string, { locks = false } = {}): string {
  const functions = locks ? `${findArchive}\n${lockTenant}` : findArchive;
  return `b="$1"; root="$2"; mark="$root/.marked"; umask 077\n${functions}\n${text.trim()}`;
}
