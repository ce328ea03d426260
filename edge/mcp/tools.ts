import * as v from "valibot";
import { pause } from "../client/call.ts";
import { ApiError, type Client, type ProcessEvent } from "../client/index.ts";
import { createBoundedText } from "./bounded-text.ts";
import { listFiles, readFile, writeFile } from "./file-tools.ts";
import { MOST_BYTES } from "./limits.ts";
import { place, placeOf } from "./place.ts";
import { defineTool, type Tool, type ToolContext } from "./tool.ts";

/** How often a claim that is waited for is looked at. */
const LOOK_MS = 2000;
/** Bytes of a process's output that are sent while it runs, and what each message counts beside its text. */
const MOST_REPORTED = 256 * 1024;
const REPORT_BYTES = 200;

const claim = defineTool({
  name: "claim",
  title: "Claim an instance",
  description:
    "Starts an instance of a workload for a tenant, or joins the one that the tenant has, and waits up to 30 s until it is Active. After an error that says to call again, the start goes on: call again. The other tools need an Active claim.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  input: v.strictObject({
    ...place,
    resume: v.optional(v.pipe(v.boolean(), v.description("Whether to restore the tenant's saved files.")), false),
    expiresInSeconds: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.description("When it is released by itself, from now.")),
    ),
    zone: v.optional(v.pipe(v.string(), v.description("Zone that it should run in; any if no pod is there."))),
  }),
  output: v.object({
    tenantId: v.string(),
    workloadRef: v.string(),
    phase: v.string(),
    instanceId: v.optional(v.string()),
    zone: v.optional(v.string()),
    source: v.optional(v.pipe(v.string(), v.description("How it was found: existing, pool, cold; +data with files."))),
    expiresAt: v.optional(v.string()),
    message: v.optional(v.string()),
  }),
  async call({ tenant, workload, resume, expiresInSeconds, zone }, { client, signal, report }) {
    const ended = new AbortController();
    const reported = report && reportClaim({ tenant, workload }, { client, signal: ended.signal, report });
    const body = {
      ...(resume && { resume }),
      ...(expiresInSeconds !== undefined && { expiresInSeconds }),
      ...(zone !== undefined && { zone }),
    };
    try {
      const {
        labels: _,
        endpoint,
        claimedAt,
        reason,
        ...claimed
      } = await client.claim(tenant, workload, body, { signal });
      return claimed;
    } finally {
      ended.abort();
      await reported;
    }
  },
});

async function reportClaim(
  { tenant: id, workload }: { tenant: string; workload: string },
  { client, signal, report }: { client: Client; signal: AbortSignal; report: (message: string) => void },
): Promise<void> {
  let last: string | undefined;
  try {
    for (;;) {
      await pause(LOOK_MS, signal);
      const { phase, waitsFor, message } = await client.call("GET /api/v1/tenants/{id}/claims/{workload}", {
        ...{ path: { id, workload }, signal },
      });
      const text = [phase, waitsFor ?? message].filter(Boolean).join(": ");
      if (text !== last) report(text);
      last = text;
    }
  } catch {
    // The claim call itself says what is wrong.
  }
}

const run = defineTool({
  name: "run",
  title: "Run a command",
  description:
    "Runs a program in an instance and waits for its end. No shell is involved unless the command names one. Cancelling the call ends the process. Long output is cut in its middle.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
  input: v.strictObject({
    ...place,
    command: v.pipe(
      v.array(v.string()),
      v.minLength(1),
      v.description('Program and arguments, such as ["sh", "-c", "ls | wc -l"].'),
    ),
    cwd: v.optional(v.pipe(v.string(), v.description("The folder that it starts in; the container's by default."))),
    env: v.optional(
      v.pipe(v.record(v.string(), v.string()), v.description("Variables in addition to the instance's.")),
    ),
    stdin: v.optional(v.pipe(v.string(), v.description("Its input, at most 256 KiB."))),
    timeoutSeconds: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(3600), v.description("When it is ended.")),
      60,
    ),
  }),
  output: v.object({
    exitCode: v.optional(v.pipe(v.number(), v.description("Absent if a signal ended it."))),
    signal: v.optional(v.string()),
    timedOut: v.optional(v.boolean()),
    stdout: v.string(),
    stderr: v.string(),
    truncated: v.optional(v.pipe(v.boolean(), v.description("Whether output was left out."))),
  }),
  async call({ command, cwd, env, stdin, timeoutSeconds, ...input }, { client, signal, report }) {
    const outputs = { stdout: createBoundedText(MOST_BYTES), stderr: createBoundedText(MOST_BYTES) };
    const reportOutput = report && createOutputReport(report);
    const options = { cwd, env, stdin, timeoutSeconds, signal };
    let last: (ProcessEvent & { type: "process" })["process"] | undefined;
    for await (const event of client.processes.follow(placeOf(input), command, options)) {
      if (event.type === "process") last = event.process;
      else {
        outputs[event.type].add(event.text);
        reportOutput?.(event.text);
      }
    }
    if (last?.state !== "ended")
      throw new ApiError("the connection to the instance was lost before the process ended", { status: 0 });
    // Each may use what the other does not need.
    const stderr = outputs.stderr.cut(MOST_BYTES / 2);
    const stdout = outputs.stdout.cut(MOST_BYTES - Buffer.byteLength(JSON.stringify(stderr.text)));
    const { exitCode, signal: endSignal, timedOut } = last;
    return {
      ...(exitCode !== undefined && { exitCode }),
      ...(endSignal !== undefined && { signal: endSignal }),
      ...(timedOut !== undefined && { timedOut }),
      ...{ stdout: stdout.text, stderr: stderr.text },
      ...((stdout.isCut || stderr.isCut) && { truncated: true }),
    };
  },
});

/** Sends output as it comes; after so much of it only how much there is, each time that has doubled. */
function createOutputReport(report: NonNullable<ToolContext["report"]>): (text: string) => void {
  let left = MOST_REPORTED;
  let total = 0;
  let next = 0;
  return (text) => {
    total += text.length;
    left -= REPORT_BYTES + text.length;
    if (left >= 0) return report(text);
    if (total < next) return;
    next = 2 * total;
    report(`(${total} characters of output so far)`);
  };
}

const logs = defineTool({
  name: "logs",
  title: "Read the log",
  description: `Reads the last lines that the main program of an instance wrote, at most ${MOST_BYTES / 1024} KiB.`,
  annotations: { readOnlyHint: true, openWorldHint: false },
  input: v.strictObject({
    ...place,
    tail: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(100_000), v.description("How many lines.")),
      200,
    ),
    previous: v.optional(
      v.pipe(v.boolean(), v.description("Whether to read the run before the container's last restart.")),
      false,
    ),
  }),
  output: v.object({ text: v.string(), truncated: v.optional(v.boolean()) }),
  async call({ tail, previous, ...input }, { client, signal }) {
    const log = createBoundedText(MOST_BYTES, { keepsStart: false });
    for await (const line of client.logs(placeOf(input), { tail, previous, signal })) log.add(`${line}\n`);
    const { text, isCut } = log.cut(MOST_BYTES);
    return { text, ...(isCut && { truncated: true }) };
  },
});

const checkpoint = defineTool({
  name: "checkpoint",
  title: "Save the files",
  description:
    "Saves the files of an instance while it runs. With a name the version stays until the name is taken from it.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  input: v.strictObject({ ...place, name: v.optional(v.pipe(v.string(), v.description("A name of the version."))) }),
  output: v.object({
    version: v.pipe(v.string(), v.description("Its name for a claim that restores it.")),
    sizeBytes: v.number(),
    createdAt: v.string(),
    names: v.optional(v.array(v.string())),
  }),
  async call({ tenant, workload, name }, { client, signal }) {
    const options = { ...(name !== undefined && { name }), signal };
    const { version, sizeBytes, createdAt, names } = await client.checkpoint(tenant, workload, options);
    return { version, sizeBytes, createdAt, ...(names !== undefined && { names }) };
  },
});

const release = defineTool({
  name: "release",
  title: "Release an instance",
  description:
    "Ends the instance of a tenant: its files are saved if the workload saves files, its processes end, and it is deleted. By default it waits for that, up to 30 s.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: v.strictObject({
    ...place,
    wait: v.optional(v.pipe(v.boolean(), v.description("Whether to wait until it is gone.")), true),
  }),
  output: v.object({
    status: v.string(),
    tenantId: v.string(),
    files: v.optional(v.pipe(v.string(), v.description("saved, unchanged, notSaved or discarded."))),
  }),
  call: async ({ tenant, workload, wait }, { client, signal }) => client.release(tenant, workload, { wait, signal }),
});

/** By name. */
export const tools: ReadonlyMap<string, Tool> = new Map(
  [claim, run, writeFile, readFile, listFiles, logs, checkpoint, release].map((tool) => [tool.listed.name, tool]),
);
