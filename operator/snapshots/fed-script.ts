/**
 * A shell function that copies the frames of its input (see `frames`) to its output, up to the line that ends them, and fails when that
 * line does not come. `$b` is busybox. It reads not one byte too much: `read` takes single bytes from a pipe, and dd what it is told.
 */
const receive = `receive() {
  while read -r length; do
    case "$length" in
      end) return 0 ;;
      "" | *[!0-9]*) return 1 ;;
    esac
    "$b" dd bs="$length" count=1 iflag=fullblock status=none || return 1
  done
  return 1
}`;

/**
 * The whole of a script for `feedCommand`, with the function `receive`: all that it says goes to its standard output, its verdict last.
 *
 * The shell itself keeps both its outputs open: containerd closes the input of an exec as soon as one of the two is closed.
 */
export function fedScript(text: string): string {
  return `${receive}\n{\n${text}\n} 2>&1\necho "verdict $?"`;
}
