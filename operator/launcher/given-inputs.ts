/** What a claim gives to its program. */
export interface ReadInputs {
  readonly env: ReadonlyMap<string, string>;
  /** Variables from a Secret. They replace those of `env`. */
  readonly secrets: ReadonlyMap<string, Buffer>;
  readonly files: readonly GivenFile[];
}

/** What is sent to a pod. */
export interface GivenInputs {
  readonly variables: ReadonlyMap<string, string | Buffer>;
  readonly files: readonly GivenFile[];
  /** Absolute paths of the folders that are saved: they outlive a container that starts again. */
  readonly overlayDirs: readonly string[];
  /** Whether what is in these folders belongs to the claim's own session, and so is newer than its inputs. */
  readonly isSession: boolean;
}

export interface GivenFile {
  /** Absolute, without line breaks. */
  readonly path: string;
  /** In octal digits. */
  readonly mode: string;
  readonly content: Buffer;
}

/** The variables as in /proc/self/environ: `NAME=value`, each with a zero byte at its end. */
function packVariables(variables: GivenInputs["variables"]): Buffer {
  return Buffer.concat([...variables].flatMap(([name, value]) => [Buffer.from(`${name}=`), Buffer.from(value), ZERO]));
}

const ZERO = Buffer.alloc(1);

/**
 * Inputs as {@link takeInputsFunction} reads them: a line with the length of the variables and whether they are for a
 * session, and the variables; a line for each of the overlay directories, and an empty line; then for each file a line
 * with its size and its mode, a line with its path, and its content.
 */
export function packInputs({ variables, files, overlayDirs, isSession }: GivenInputs): Buffer {
  const packed = packVariables(variables);
  return Buffer.concat([
    Buffer.from(`${packed.length} ${isSession ? "session" : "new"}\n`),
    packed,
    Buffer.from(`${overlayDirs.map((path) => `.${path}\n`).join("")}\n`),
    ...files.flatMap(({ path, mode, content }) => [Buffer.from(`${content.length} ${mode}\n.${path}\n`), content]),
  ]);
}

/** The exit code of a command where the pod does not have the inputs: it never got them, or its memory is lost. */
export const NEVER_GIVEN = 3;
/** The exit code of a command that did not take the inputs as a whole. */
export const NOT_TAKEN = 4;

/**
 * A shell function that writes the variables of `$d/inputs` to `$d/variables`, and its files. `$b` is busybox. It fails
 * if it cannot write one, and says which. Where the program has started before, that is no failure: it writes only
 * files that are not there.
 *
 * It writes nothing in the overlay directories of a session, and where the program has started before: what the program
 * wrote there is newer, and it may have deleted a file. Images have links, so it compares real paths.
 *
 * It reads a file that was there as a whole before it began. Its messages contain nothing of it but paths.
 */
export const takeInputsFunction = `part() {
  "$b" dd bs=65536 count="$2" iflag=fullblock,count_bytes status=none 2> /dev/null > "$1"
}
is_newer() {
  [ -n "$is_again" ] || return 1
  [ -e "$d"/taken ] && [ -e "$path" ] && return
  folder="\${path%/*}"
  until [ -d "$folder" ]; do folder="\${folder%/*}"; done
  folder="$("$b" readlink -f "$folder")"
  until [ -z "$folder" ]; do
    case "$overlays" in *"$line$folder$line"*) return 0 ;; esac
    folder="\${folder%/*}"
  done
  return 1
}
make_room() {
  [ -d "\${path%/*}" ] || (umask 022 && "$b" mkdir -p "\${path%/*}") || return
  [ ! -d "$path" ] || return
  [ ! -e "$path" ] && [ ! -L "$path" ] || "$b" rm -f "$path"
}
take_inputs() {
  umask 077
  read -r size state || return 1
  if [ -e "$d"/taken ] && [ -e "$d"/variables ]; then part /dev/null "$size"; else part "$d"/variables "$size"; fi || return 1
  line='
'
  overlays="$line"
  is_again=
  if [ -e "$d"/taken ] || [ "$state" = session ]; then is_again=1; fi
  while IFS= read -r overlay && [ -n "$overlay" ]; do
    [ -z "$is_again" ] || overlays="$overlays$("$b" readlink -f "$overlay")$line"
  done
  while read -r size mode && IFS= read -r path; do
    if is_newer; then part /dev/null "$size"; continue; fi
    # It is not written through what is there.
    if make_room 2> /dev/null; then
      (set -C && part "$path" "$size") 2> /dev/null && { [ "\${mode#0}" = 600 ] || "$b" chmod "$mode" "$path"; } && continue
      # How much of it was read is not known.
      "$b" rm -f "$path" 2> /dev/null
      echo "cannot write the claim's file \${path#.}"
      [ -e "$d"/taken ]; return
    fi
    echo "cannot write the claim's file \${path#.}"
    [ -e "$d"/taken ] && part /dev/null "$size" || return 1
  done
  : > "$d"/taken
}`;
