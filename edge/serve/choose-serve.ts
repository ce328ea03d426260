import type { Serve } from "./serve.ts";

/** The adapter of the runtime that this is; the others are never loaded. */
export async function chooseServe(versions: NodeJS.ProcessVersions = process.versions): Promise<Serve> {
  if (versions.bun !== undefined) return (await import("./bun.ts")).serveBun;
  if ("deno" in versions) return (await import("./deno.ts")).serveDeno;
  return (await import("./node.ts")).serveNode;
}
