import * as v from "valibot";
import type { Job } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { buildFailureReasons } from "../metrics.ts";

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

export type BuildFailure = (typeof buildFailureReasons)[number];

const lasting: ReadonlySet<string> = new Set<BuildFailure>(["BuildFailed", "BuildTimeout", "ContextRefused"]);

/** Whether the same build would fail again, so that an input has to be changed first. */
export function isLasting(reason: string | undefined): boolean {
  return reason !== undefined && lasting.has(reason);
}

const recordSchema = v.intersect([
  v.object({ finishedAt: v.pipe(v.string(), v.isoTimestamp()) }),
  v.variant("state", [
    v.object({
      state: v.literal("Built"),
      digest: v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/)),
      steps: v.number(),
      cached: v.number(),
      commit: v.optional(v.string()),
    }),
    v.object({
      state: v.literal("Failed"),
      reason: v.picklist(buildFailureReasons),
      message: v.string(),
      /** Whether its pod still waits for a context that will not come, so that the Job does not end by itself. */
      isLeft: v.optional(v.boolean()),
    }),
  ]),
]);

/** How a build ended, as an annotation of its Job stores it. */
export type BuildRecord = v.InferOutput<typeof recordSchema>;

/** The record of a Job; undefined if it has none that can be read. */
export function recordOf({ metadata }: Job): BuildRecord | undefined {
  const text = metadata.annotations?.[annotation.buildResult];
  if (text === undefined) return undefined;
  try {
    const parsed = v.safeParse(recordSchema, JSON.parse(text));
    return parsed.success ? parsed.output : undefined;
  } catch {
    // It is not JSON, so another client wrote it.
    return undefined;
  }
}

/** The lines of a step's output that a message has. */
const MOST_LINES = 20;

/**
 * Reads the result that `buildScript` wrote to its container's termination message; undefined if it was killed before.
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
        return failed("BuildFailed", "the builder reported no digest of the image");
      return { state: "Built", digest, steps: numberOf(fields.get("steps")), cached: numberOf(fields.get("cached")) };
    }
    case "Failed":
      if (step.startsWith("exporting to image") && error.includes("failed to push")) {
        const setting = "see the registry, and the operator's TENANCY_REGISTRY and TENANCY_REGISTRY_SECRET";
        return failed("RegistryRefused", `the image could not be pushed: ${error}; ${setting}`);
      }
      return failed("BuildFailed", [explain(step, error), lastLines(said)].filter((text) => text !== "").join("\n"));
    case "BuilderUnavailable":
      return failed(
        "BuilderUnavailable",
        `the builder did not start on that node (docs/how-to/set-up-builds.md#nodes-for-builds): ${lastLines(said)}`,
      );
    default:
      return undefined;
  }
}

function explain(step: string, error: string): string {
  const missing = /failed to calculate checksum of ref \S+ ("[^"]*"): not found/.exec(error)?.[1];
  const why =
    missing !== undefined
      ? `${missing} does not exist: add it to the build context (see .dockerignore), or to the stage or image of --from`
      : error || "the builder gave no reason";
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
