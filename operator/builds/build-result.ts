/** How a build ended. */
export type BuildResult =
  | {
      readonly state: "Built";
      /** Of the image in the registry: `sha256:` and 64 hexadecimal digits. */
      readonly digest: string;
      /** Steps of the build file, and how many of them were in the cache. */
      readonly steps: number;
      readonly cached: number;
    }
  | { readonly state: "Failed"; readonly reason: BuildFailure; readonly message: string };

/**
 * - `BuildFailed`: a step failed, or the build file cannot be read
 * - `RegistryRefused`: the image was built and could not be pushed
 * - `BuilderUnavailable`: the builder did not start on that node
 */
export type BuildFailure = "BuildFailed" | "RegistryRefused" | "BuilderUnavailable";

/** What of a step's output is passed on. */
const MOST_LINES = 20;

/**
 * Reads what `buildScript` has written to the termination message of its container; undefined where it wrote nothing,
 * since it was killed.
 */
export function parseBuildResult(message: string): BuildResult | undefined {
  const [head = "", ...rest] = message.split("\n\n");
  const fields = new Map(head.split("\n").map((line) => splitOnce(line)));
  const said = rest.join("\n\n").trim();
  const error = fields.get("error") ?? "";
  const step = fields.get("step") ?? "";
  switch (fields.get("state")) {
    case "Built": {
      const digest = fields.get("digest") ?? "";
      if (!/^sha256:[0-9a-f]{64}$/.test(digest))
        return failed("BuildFailed", "the builder names no digest of the image");
      return { state: "Built", digest, steps: numberOf(fields.get("steps")), cached: numberOf(fields.get("cached")) };
    }
    case "Failed":
      if (step.startsWith("exporting to image") && error.includes("failed to push")) {
        return failed("RegistryRefused", `the image could not be pushed: ${error}`);
      }
      return failed("BuildFailed", [explain(step, error), lastLines(said)].filter((text) => text !== "").join("\n"));
    case "BuilderUnavailable":
      return failed(
        "BuilderUnavailable",
        `the builder did not start on that node (docs/troubleshooting.md): ${lastLines(said)}`,
      );
    default:
      return undefined;
  }
}

function explain(step: string, error: string): string {
  const why = error === "" ? "the builder does not say why" : error;
  if (step === "") return why;
  const base = step.startsWith("[internal] load metadata for ")
    ? " (the base image must be in a registry that builds can reach)"
    : "";
  return `step ${step} failed: ${why}${base}`;
}

function lastLines(text: string): string {
  return text.split("\n").slice(-MOST_LINES).join("\n");
}

function failed(reason: BuildFailure, message: string): BuildResult {
  return { state: "Failed", reason, message };
}

function splitOnce(line: string): [string, string] {
  const at = line.indexOf("=");
  return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
}

function numberOf(text = ""): number {
  return /^\d{1,6}$/.test(text) ? Number(text) : 0;
}
