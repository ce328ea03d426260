import { execFile } from "node:child_process";

/** The oldest that is used here; also the oldest server that tenancy supports. */
const OLDEST = { major: 1, minor: 20 };
const LIMIT_MS = 20_000;

/** Says why a kubectl cannot be used, and what to do; undefined where it can. */
export async function kubectlProblem(options: {
  command: string;
  env: Readonly<Record<string, string | undefined>>;
}): Promise<string | undefined> {
  const wanted = `install kubectl ${OLDEST.major}.${OLDEST.minor} or newer on its PATH`;
  const { command, env } = options;
  let output: string;
  try {
    output = await printed(command, ["version", "--client", "--output=json"], env);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === "ENOENT") return `this server has no kubectl, which logs and exec need; ${wanted}`;
    if (code === "EACCES") return `the kubectl of this server cannot be run; ${wanted}`;
    return `the kubectl of this server fails to tell its version; ${wanted}`;
  }
  const version = /"gitVersion": *"v?(\d+)\.(\d+)/.exec(output);
  const [major, minor] = [Number(version?.[1]), Number(version?.[2])];
  if (Number.isNaN(major) || Number.isNaN(minor))
    return `the kubectl of this server fails to tell its version; ${wanted}`;
  if (major > OLDEST.major || (major === OLDEST.major && minor >= OLDEST.minor)) return undefined;
  return `the kubectl of this server is version ${major}.${minor}, which is too old; ${wanted}`;
}

function printed(
  command: string,
  parameters: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(command, parameters, { env, timeout: LIMIT_MS, killSignal: "SIGKILL" }, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(error);
    });
  });
}
