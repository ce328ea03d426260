import type { Version } from "./acts.tsx";

/** Why a version is kept. */
export function Kept({ of }: { of: Version }) {
  const { names = [] } = of;
  if (names.length === 0) return <>{keptWords(of)}</>;
  return (
    <>
      Named <b>{names.join(", ")}</b>
      {of.version === undefined && `; ${keptWords(of)}`}
    </>
  );
}

function keptWords({ version, kept, kind, sha256 }: Version): string {
  if (version === undefined) return sha256 === undefined ? "newest" : "newest: restored by a claim with files";
  if (kind === "checkpoint") return "Checkpoint of a running session, or of one that ended without a save";
  return kept === "history" ? "A later session started from it" : "Replaced by a fresh session";
}
