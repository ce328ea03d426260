// Both scripts run in busybox's POSIX shell, which moby/buildkit's rootless images have.

/**
 * The script of the build container. Its parameters: the image without its tag, the tag, the build file, and further
 * arguments for buildctl. The init container fills `/context/files`, which is read-only here. `/work` has the layers,
 * `/tmp` the socket and the logs; `$CONFIG` is a buildkitd.toml or empty.
 *
 * The script writes the result to the container's termination message, for `parseBuildResult`. No command line has a
 * secret, since the steps of a build can read the command lines in the container.
 */
export const buildScript = String.raw`set -u
image=$1 tag=$2 file=$3 config=; shift 3
export BUILDKIT_HOST=unix:///tmp/run/buildkitd.sock XDG_RUNTIME_DIR=/tmp/run TMPDIR=/tmp HOME=/tmp/home USER=user
mkdir -p /tmp/run /tmp/home
result() { head -c 4000 > /dev/termination-log; }
[ ! -s "$CONFIG" ] || config="--config $CONFIG"
rootlesskit buildkitd --oci-worker-no-process-sandbox --addr "$BUILDKIT_HOST" --root /work $config \
  > /tmp/buildkitd.log 2>&1 &
daemon=$! build=
trap 'kill $build $daemon 2>/dev/null; wait; exit 143' TERM INT
tries=0
until buildctl debug workers > /dev/null 2>&1; do
  tries=$((tries + 1))
  if [ $tries -ge 600 ] || ! kill -0 $daemon 2>/dev/null; then
    { echo "state=BuilderUnavailable"; echo; grep -v level= /tmp/buildkitd.log | head -n 10; } | result
    cat /tmp/buildkitd.log
    exit 70
  fi
  sleep 0.1
done
mkfifo /tmp/log
tee /tmp/build.log < /tmp/log & log=$!
buildctl build --progress=plain --frontend dockerfile.v0 --local context=/context/files --local dockerfile=/context/files \
  --opt "filename=$file" "$@" \
  --output "type=image,name=$image:$tag,push=true" --metadata-file /tmp/metadata.json \
  --import-cache "type=registry,ref=$image:cache" --export-cache "type=registry,ref=$image:cache,mode=max,ignore-error=true" \
  > /tmp/log 2>&1 & build=$!
wait $build; code=$?
wait $log
if [ $code = 0 ]; then
  {
    echo "state=Built"
    sed -n 's/^  "containerimage.digest": *"\(sha256:[0-9a-f]*\)".*/digest=\1/p' /tmp/metadata.json
    awk '
      /^#[0-9]+ \[([^]]* )?[0-9]+\/[0-9]+\] / && !/\] FROM / { steps[$1] = 1 }
      /^#[0-9]+ (CACHED$|extracting sha256:)/ { cached[$1] = 1 }
      END { for (s in steps) { n++; if (s in cached) c++ } printf "steps=%d\ncached=%d\n", n, c }' /tmp/build.log
  } | result
else
  awk -v code=$code '
    /^#[0-9]+ / && !($1 in name) { name[$1] = $0; sub(/^#[0-9]+ /, "", name[$1]) }
    /^#[0-9]+ ERROR: / && failed == "" && name[$1] !~ /^(importing|exporting) cache/ { failed = $1; why = $0; sub(/^#[0-9]+ ERROR: /, "", why) }
    /^#[0-9]+ [0-9.]+ / { line = $0; sub(/^#[0-9]+ [0-9.]+ /, "", line); lines[$1, ++n[$1]] = line }
    /^ *[0-9]+ [|] >>> / && line_failed == "" { line_failed = $0; sub(/^ *[0-9]+ [|] >>> /, "", line_failed) }
    /^error: / { last = $0; sub(/^error: (failed to solve: )?/, "", last) }
    END {
      step = failed == "" ? line_failed : name[failed]
      if (failed == "" && step != "") for (s in name) if (index(name[s], "] " step)) step = name[s]
      print "state=Failed"; print "code=" code; print "step=" substr(step, 1, 500)
      print "error=" substr(why == "" ? last : why, 1, 1000); print ""
      first = n[failed] - 19; if (first < 1) first = 1
      for (i = first; i <= n[failed]; i++) print substr(lines[failed, i], 1, 110)
    }' /tmp/build.log | result
fi
kill $daemon; wait $daemon 2>/dev/null
exit $code
`;

/**
 * The script of the init container for a context in Git. Its parameters: the URL, the ref, the folder in the
 * repository, and the name of a Secret or nothing. Only this container has the token, and no command line has it.
 *
 * The Secret names the host that it is for. The author of a workload names both the Secret and the URL, and could
 * otherwise send any token to their own host.
 */
export const gitContextScript = String.raw`set -eu
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_ALLOW_PROTOCOL=https HOME=/tmp GIT_CONFIG_COUNT=0
if [ -n "$4" ]; then
  for key in token host; do
    [ -s "/git/$key" ] || { echo "Secret \"$4\" with the key $key is not there" >&2; exit 66; }
  done
  host=$(printf %s "$1" | sed 's|^https://||; s|/.*||')
  [ "$(cat /git/host)" = "$host" ] || { echo "Secret \"$4\" is for another host than $host: its key host says which" >&2; exit 66; }
  # Not on the command line: all processes of the pod can read it.
  export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0="http.$1.extraHeader"
  # Otherwise a redirect would send the token to another server.
  export GIT_CONFIG_KEY_1=http.followRedirects GIT_CONFIG_VALUE_1=false
  GIT_CONFIG_VALUE_0="Authorization: Basic $(printf 'x-access-token:%s' "$(cat /git/token)" | base64 | tr -d '\n')"
  export GIT_CONFIG_VALUE_0
fi
git init -q --template= /context/repository
cd /context/repository
git fetch -q --depth 1 --no-tags "$1" "$2"
git checkout -q --detach FETCH_HEAD
commit=$(git rev-parse HEAD)
rm -rf .git
# If the folder were a link, the build could read its container's own files, such as the registry's
# credentials.
folder=$(realpath "/context/repository/$3")
case "$folder" in /context/repository|/context/repository/*) ;; *) echo "$3 leads out of the repository" >&2; exit 65 ;; esac
[ -d "$folder" ] || { echo "$3 is no folder in the repository at $commit" >&2; exit 65; }
mv "$folder" /context/files
printf 'commit=%s\n' "$commit" > /dev/termination-log
`;
