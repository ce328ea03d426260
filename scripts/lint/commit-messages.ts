import { execFileSync } from "node:child_process";

const MOST_SUBJECT = 72;

/**
 * What is wrong with the messages of the commits that a checkout has and its upstream branch does not: they take a
 * short subject, and a body that says why. Without an upstream branch no commit is looked at.
 */
export function commitProblems(root: string): string[] {
  const git = (...words: string[]) =>
    execFileSync("git", words, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  let upstream: string;
  try {
    upstream = git("rev-parse", "--verify", "@{upstream}").trim();
  } catch {
    // No branch, or no repository, as in a download of the source.
    return [];
  }
  const commits = git("log", "--no-merges", "--format=%h%x00%s%x00%b%x00%x00", `${upstream}..HEAD`);
  return commits
    .split("\0\0\n")
    .filter(Boolean)
    .flatMap((commit) => {
      const [hash = "", subject = "", body = ""] = commit.split("\0");
      const name = `${hash} "${subject}"`;
      return [
        ...(subject.length > MOST_SUBJECT ? [`${name}: the subject has more than ${MOST_SUBJECT} characters`] : []),
        ...(body.trim() === "" ? [`${name}: there is no body that says why`] : []),
      ];
    });
}
