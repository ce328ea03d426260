/** For a shell: `now` sets `up` to the hundredths of a second since the node's start. */
export const NOW_FUNCTION = `now() { read -r up idle < /proc/uptime; up="\${up%.*}\${up#*.}"; }`;

/**
 * For a shell whose `$b` is busybox: `program_of NAME` writes the path of a program of the image. busybox would take
 * the name for one of its own programs.
 */
export const PROGRAM_FUNCTION = `program_of() {
  case "$1" in */*) echo "$1" ;; *) "$b" which "$1" || { echo "there is no program $1 in the container"; return 1; } ;; esac
}`;

/**
 * For a shell whose `$b` is busybox: `below STATES PIDS` writes the pids of the processes below process 1, those above
 * first, without those in the states (letters of `State` in proc(5)) and without the given ones. They are the program
 * and what it has started or left behind; what `exec` starts is below none.
 */
export const BELOW_FUNCTION = `below() {
  "$b" cat /proc/[0-9]*/status 2> /dev/null | "$b" awk -v states="$1" -v others=" $2 " '
    /^State:/ { state = $2 }
    /^Pid:/ { pid = $2 }
    /^PPid:/ { parent[pid] = $2; if (!index(states, state) && !index(others, " " pid " ")) found[pid] }
    END {
      for (pid in found) {
        depth = 0
        for (up = pid; up in parent && up > 1; up = parent[up]) depth++
        if (up == 1 && depth > 0) { at[pid] = depth; if (depth > deepest) deepest = depth }
      }
      for (depth = 1; depth <= deepest; depth++) for (pid in at) if (at[pid] == depth) print pid
    }'
}`;
