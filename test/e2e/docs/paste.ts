import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";

/** A command of a page, which may be of several lines. */
export interface Pasted {
  readonly command: string;
  /** What it wrote, to both streams. */
  readonly output: string;
  readonly exitCode: number;
}

/**
 * Runs a page's commands one after the other in one shell, as a person who pastes them, and goes on where one fails.
 * A `curl` that is answered with an error fails, and one that is answered with 504 is tried again, since a busy machine
 * takes longer than one call waits.
 */
export async function paste(
  commands: string,
  options: { folder: string; environment: NodeJS.ProcessEnv },
): Promise<Pasted[]> {
  const statements = statementsOf(commands);
  const script = [
    "exec 2>&1; set -o pipefail",
    `curl() {
      local code tries=0
      while :; do
        command curl --fail-with-body --silent --show-error --dump-header "$PASTE_HEADERS" "$@"; code=$?
        tries=$((tries + 1))
        grep -q '^HTTP/[0-9.]* 504' "$PASTE_HEADERS" && [ $tries -lt 8 ] || return $code
      done
    }`,
    ...statements.map(
      (statement, index) => `printf '\\n@@begin ${index}\\n'\n${statement}\nprintf '\\n@@end %s\\n' $?`,
    ),
  ];
  // A person's stderr can be opened by its name, which Node's own pipe to a program cannot.
  const child = spawn("bash", ["-c", "bash -s | cat"], {
    ...{ cwd: options.folder, env: options.environment, stdio: ["pipe", "pipe", "inherit"] },
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  // What it runs must not read the script as its input.
  child.stdin.end(`{\n${script.join("\n")}\n} < /dev/null\n`);
  await once(child, "close");
  return statements.map((command, index) => {
    const [, said = "", code] = new RegExp(`@@begin ${index}\\n(.*?)\\n@@end (\\d+)\\n`, "s").exec(output) ?? [];
    return { command, output: said, exitCode: code === undefined ? -1 : Number(code) };
  });
}

/** Lines that belong together: a command goes on until bash can read it whole. */
function statementsOf(commands: string): string[] {
  const statements: string[] = [];
  let lines: string[] = [];
  for (const line of commands.split("\n")) {
    if (lines.length === 0 && /^\s*(#.*)?$/.test(line)) continue;
    lines.push(line);
    if (line.endsWith("\\") || !isWhole(lines.join("\n"))) continue;
    statements.push(lines.join("\n"));
    lines = [];
  }
  if (lines.length > 0) throw new Error(`bash cannot read to its end: ${lines.join("\n")}`);
  return statements;
}

/** bash ends a here-document at the end of its input with a mere warning. */
function isWhole(commands: string): boolean {
  const { status, stderr } = spawnSync("bash", ["-n"], { input: `${commands}\n`, encoding: "utf8" });
  return status === 0 && !stderr.includes("here-document");
}
