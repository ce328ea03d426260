import { dirname } from "node:path";
import type { Claim } from "../../crds/claim.ts";
import type { ClaimHook } from "../../crds/defaults.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { fedScript } from "../snapshots/streams/feed-command.ts";
import { END, frames } from "../snapshots/streams/frames.ts";
import { ANSWER } from "../snapshots/streams/prestarted-commands.ts";
import { type GivenInputs, NEVER_GIVEN, NOT_TAKEN, type ReadInputs } from "./given-inputs.ts";
import { requestFunction } from "./health-check.ts";
import { LAUNCHER_FOLDER, startsOnClaim } from "./launch-command.ts";
import { NOW_FUNCTION, PROGRAM_FUNCTION } from "./shell-functions.ts";

/** Where a program that runs already finds what its claim brings, without a slash at its start. */
const CLAIM_FOLDER = `${LAUNCHER_FOLDER}/claim`;
const CLAIM_FILE = `${CLAIM_FOLDER}/claim.json`;
/** Where the folder is made until it is whole. */
const STAGE = `${LAUNCHER_FOLDER}/stage`;
/** Only the container's user can read them. */
const MODE = "0400";

/** Whether the program of a pod runs before its claim and is told of it. */
export function hasClaimHook({ metadata: { annotations } }: Pod): boolean {
  return annotations?.[annotation.onClaim] !== undefined;
}

/** Whether something is done in the pod when it is claimed: its program starts, or is told. */
export function awaitsClaim(pod: Pod): boolean {
  return startsOnClaim(pod.spec) || hasClaimHook(pod);
}

/** The parameters of {@link hookScript} for a pod that has a hook. */
export function hookWords({ metadata: { annotations } }: Pod): string[] {
  const { call, timeoutSeconds } = JSON.parse(annotations?.[annotation.onClaim] ?? "") as ClaimHook;
  const seconds = String(timeoutSeconds);
  return "port" in call ? [seconds, String(call.port), call.path] : [seconds, "", "", ...call.command];
}

/**
 * What a claim brings, as files below {@link CLAIM_FOLDER}. `claim.json` is what the hook gets: it has no secret in it,
 * since programs log what they are called with.
 */
export function hookInputs({ spec }: Claim, { env, secrets, files }: ReadInputs): GivenInputs {
  const at = (path: string) => `/${CLAIM_FOLDER}/${path}`;
  const secretPaths = new Map([...secrets.keys()].map((name) => [name, at(`secrets/${name}`)]));
  const filePaths = new Map(files.map(({ path }) => [path, at(`files${path}`)]));
  const claim = {
    ...{ tenantId: spec.tenantId, workload: spec.workloadRef, env: Object.fromEntries(env) },
    ...{ secrets: Object.fromEntries(secretPaths), files: Object.fromEntries(filePaths) },
  };
  const given = [
    ...[...secrets].map(([name, content]) => ({ path: `/secrets/${name}`, content })),
    ...files.map(({ path, content }) => ({ path: `/files${path}`, content })),
    { path: "/env.json", content: Buffer.from(JSON.stringify(claim.env)) },
    { path: "/claim.json", content: Buffer.from(JSON.stringify(claim)) },
  ];
  return {
    ...{ variables: new Map(), overlayDirs: [], isSession: false },
    files: given.map((file) => ({ ...file, mode: MODE })),
  };
}

/** Files as {@link hookScript} reads them: a line for each folder, and an empty one; each file, and an empty line. */
export async function* packFiles({ files }: GivenInputs): AsyncGenerator<Uint8Array> {
  const folders = new Set(files.map(({ path }) => dirname(path)));
  yield Buffer.from(`${[...folders].map((folder) => `${folder}\n`).join("")}\n`);
  for (const { path, content } of files) {
    yield Buffer.from(`${path}\n`);
    yield* frames([content]);
    yield END;
  }
  yield Buffer.from("\n");
}

/**
 * Takes the files, if they come, and calls the hook. It shows nothing of its output: there can be a secret in it. The
 * command runs in the image's own folder, as one of `kubectl exec` does.
 */
export const hookScript = fedScript(`home="$PWD"; b="$1"; cd "$2" || exit 1
seconds="$3"; port="$4"; to="$5"; shift 5
${requestFunction}
# Another command may do the same: each writes a folder of its own, and the first that is whole stays.
take() {
  # Of commands that were cut off, or that come too late.
  for stage in ${STAGE}.*; do [ ! -e "$stage" ] || "$b" rm -rf "$stage"; done
  stage="${STAGE}.$$"
  set --
  while IFS= read -r folder && [ -n "$folder" ]; do set -- "$@" "$stage/claim$folder"; done
  mask="$(umask)"
  umask 077
  "$b" mkdir -p "$@" || return
  # Each program costs a millisecond, so none sets the mode ${MODE}.
  umask 377
  while IFS= read -r file || return; do
    [ -n "$file" ] || break
    receive > "$stage/claim$file" || { echo "cannot write /${CLAIM_FOLDER}$file"; return 1; }
  done
  umask "$mask"
  # It fails where there is one with files.
  "$b" mv "$stage/claim" ${LAUNCHER_FOLDER} 2> /dev/null || [ -e ${CLAIM_FILE} ]
}
${NOW_FUNCTION}
${PROGRAM_FUNCTION}
call() {
  now; end=$((up + seconds * 100))
  if [ -z "$port" ]; then
    program="$(program_of "$1")" || { echo "$program"; return 1; }
    shift
    # A shell writes that its program was killed: this one does that without an output.
    (cd "$home" && "$b" timeout -k 1 "$seconds" "$program" "$@"; exit "$?") < ${CLAIM_FILE} > /dev/null 2>&1
    code=$?
    [ "$code" != 0 ] || return 0
    now; [ "$up" -lt "$end" ] || { echo "it did not end within $seconds s"; return 1; }
    echo "it ended with $code"
    return 1
  fi
  find_host
  path="$to"
  request POST "$seconds" ${CLAIM_FILE}
  case "$answer" in
    2[0-9][0-9]) return 0 ;;
    "") echo "connection refused on port $port" ;;
    none) echo "no answer to POST $path on port $port within $seconds s" ;;
    *) echo "POST $path on port $port is answered with $answer" ;;
  esac
  return 1
}
begin() {
  read -r word && [ "$word" = ask ] && echo ${ANSWER} || return 1
  read -r word given || return 1
  if [ "$word" = inputs ]; then
    take || return ${NOT_TAKEN}
    read -r word given || return 1
  fi
  [ -e ${CLAIM_FILE} ] || return ${NEVER_GIVEN}
  call "$@"
}
begin "$@"`);
