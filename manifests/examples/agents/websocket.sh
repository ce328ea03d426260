# The server's side of a WebSocket (RFC 6455) on standard input and output, in what busybox has. Source it, call `accept` once, then
# `hear` and `say`. Good enough for an example: a real agent uses a library.

CR=$(printf '\r')

# accept: reads the request and answers it. Anything but an upgrade gets 200, for the health probe, and ends the program.
accept() {
  key=
  read -r request || exit 0
  while read -r name value && [ "$name" != "$CR" ]; do
    case $name in
      [Ss]ec-[Ww]eb[Ss]ocket-[Kk]ey:) key=${value%"$CR"} ;;
    esac
  done
  if [ -z "$key" ]; then
    printf 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n'
    exit 0
  fi
  answer=$(printf '%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11' "$key" | sha1sum | cut -c1-40 | xxd -r -p | base64)
  printf 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: %s\r\n\r\n' "$answer"
}

# say TEXT: sends a text message.
say() {
  frame 129 "$1"
}

# hear: waits for the next text message and puts it into $message; fails when the connection has ended.
hear() {
  message=
  while :; do
    set -- $(bytes 2)
    [ $# -eq 2 ] || return 1
    first=$1
    length=$(($2 & 127))
    if [ "$length" -eq 126 ]; then
      set -- $(bytes 2)
      length=$(($1 << 8 | $2))
    elif [ "$length" -eq 127 ]; then
      set -- $(bytes 8)
      length=$(($5 << 24 | $6 << 16 | $7 << 8 | $8))
    fi
    set -- $(bytes 4)
    piece=$(unmasked "$length" "$@")
    case $((first & 15)) in
      0 | 1)
        message=$message$piece
        [ "$first" -lt 128 ] || return 0
        ;;
      8)
        frame 136 "$piece"
        return 1
        ;;
      9) frame 138 "$piece" ;;
    esac
  done
}

# frame FIRST_BYTE TEXT
frame() {
  size=$(printf %s "$2" | wc -c)
  if [ "$size" -lt 126 ]; then
    head=$(printf '%02x%02x' "$1" "$size")
  elif [ "$size" -lt 65536 ]; then
    head=$(printf '%02x7e%04x' "$1" "$size")
  else
    head=$(printf '%02x7f%016x' "$1" "$size")
  fi
  {
    printf %s "$head" | xxd -r -p
    printf %s "$2"
  } | cat
}

# bytes COUNT: the next bytes as decimal numbers. One at a time, so that none is taken of what follows.
bytes() {
  dd bs=1 count="$1" 2>/dev/null | od -An -v -tu1
}

# unmasked LENGTH MASK...: the next bytes without their mask.
unmasked() {
  bytes "$1" | awk -v a="$2" -v b="$3" -v c="$4" -v d="$5" '
    BEGIN { mask[0] = a; mask[1] = b; mask[2] = c; mask[3] = d }
    { for (field = 1; field <= NF; field++) printf "%c", xor($field, mask[at++ % 4]) }'
}
