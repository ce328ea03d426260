import { execFile } from "node:child_process";

/** What the version of a kubectl comes to. */
export type KubectlVersion =
  | {
      readonly kind: "usable";
      /**
       * Whether its `exec` over WebSockets may drop what the command prints first: before client-go 0.34 the reader starts while the
       * streams are still made, says "Unknown stream id 1, discarding message" and ends with exit code 0.
       */
      readonly dropsFirstOutput: boolean;
    }
  /** `problem` says why it cannot be used, and what to do. */
  | { readonly kind: "unusable"; readonly problem: string };

/** The oldest that is used here; also the oldest server that tenancy supports. */
const OLDEST_MINOR = 20;
const FIRST_WHOLE_MINOR = 34;
const LIMIT_MS = 20_000;

/** Asks a kubectl for its version. */
export async function kubectlVersion(options: {
  command: string;
  env: Readonly<Record<string, string | undefined>>;
}): Promise<KubectlVersion> {
  const { command, env } = options;
  let output: string;
  try {
    output = await printed(command, ["version", "--client", "--output=json"], env);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === "ENOENT") return unusable("this server has no kubectl, which logs and exec need");
    if (code === "EACCES") return unusable("the kubectl of this server cannot be run");
    return unusable("the kubectl of this server fails to tell its version");
  }
  const version = /"gitVersion": *"v?(\d+)\.(\d+)/.exec(output);
  const [major, minor] = [Number(version?.[1]), Number(version?.[2])];
  if (Number.isNaN(major) || Number.isNaN(minor)) {
    return unusable("the kubectl of this server fails to tell its version");
  }
  if (major < 1 || (major === 1 && minor < OLDEST_MINOR)) {
    return unusable(`the kubectl of this server is version ${major}.${minor}, which is too old`);
  }
  return { kind: "usable", dropsFirstOutput: major === 1 && minor < FIRST_WHOLE_MINOR };
}

function unusable(what: string): KubectlVersion {
  return { kind: "unusable", problem: `${what}; install kubectl 1.${OLDEST_MINOR} or newer on its PATH` };
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
