import * as v from "valibot";
import type { Clock } from "../../../crds/client/clock.ts";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { instanceUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { instanceNameRule, pathParam } from "../../http/parameters.ts";
import { readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { runInContainer } from "../../kubectl/run-in-container.ts";
import { type ApiRoute, bodySchema } from "../api-route.ts";
import { requireGiven } from "./given.ts";
import { findInstance, type InstanceServices, instanceError } from "./instance.ts";

const MAX_SECONDS = 3600;
/** Linux limits one argument of a process to 128 KiB, and kubectl sends the whole command in a URL. */
const MAX_COMMAND_BYTES = 100_000;

// An argument of a process cannot contain NUL.
const argument = v.pipe(v.string(), v.regex(new RegExp(pattern.noNull), "must not contain a NUL character"));
/** The command of a request's body. */
export const commandRule = v.pipe(
  v.array(argument),
  v.minLength(1, 'must name a program, as in ["ls", "-l"]; it has no entry'),
  v.check(([program]) => program !== "", "must start with the name of a program, not with an empty string"),
  v.maxLength(1024, "must have at most 1024 entries"),
  v.check(
    (command) => Buffer.byteLength(command.join("")) <= MAX_COMMAND_BYTES,
    `must have at most ${MAX_COMMAND_BYTES} bytes in total; write more into the instance in several calls`,
  ),
  v.metadata({
    not: { prefixItems: [{ const: "" }] },
    description: `Program and arguments, at most ${MAX_COMMAND_BYTES} bytes in total; no shell.`,
  }),
);
const execBody = v.strictObject({
  command: commandRule,
  timeoutSeconds: v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MAX_SECONDS, `must be at most ${MAX_SECONDS}`),
      v.description("After this, the response is 504."),
    ),
    60,
  ),
});

/**
 * `POST /api/v1/instances/{id}/exec`: runs a command in the workload's container, once an Active claim has the
 * instance. In a warm pod the effects would reach the next tenant, and before a restore they would be lost.
 */
export function execRoute(services: InstanceServices): ApiRoute {
  return {
    method: "POST",
    path: "/api/v1/instances/:id/exec",
    access: instanceUse,
    summary: "Run a command in the workload's container",
    description: "409 for a warm pod, and until a claim is Active with the instance.",
    body: bodySchema(execBody),
    answer: "ExecOutcome",
    errors: [404, 408, 409, 413, 503, 504],
    async handle(request, { clientGone, mayBeSilent }) {
      const name = pathParam(request, "id", instanceNameRule);
      const { command, timeoutSeconds } = await readJson(request, execBody);
      await requireGiven(await findInstance(name, services), services);
      mayBeSilent?.();
      const execRequest = { name, command, timeoutMs: timeoutSeconds * 1000 };
      const { kubectl, clock } = services;
      const signal = clientGone ?? request.signal;
      return jsonResponse(
        await services.activity.during(name, () => execInPod(execRequest, { kubectl, clock, clientGone: signal })),
      );
    },
  };
}

/** Result of a command; `truncated` if more was printed than returned. */
interface ExecOutcome {
  stdout: string;
  stderr: string;
  exitCode: number;
  truncated?: true;
}

const MAX_OUTPUT_BYTES = 1024 * 1024;

/**
 * Runs a command in the workload's container.
 *
 * @throws HttpError 504 when the time limit passes; 499 when the client disconnects; as {@link instanceError} if
 * kubectl fails
 */
async function execInPod(
  request: { name: string; command: readonly string[]; timeoutMs: number },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<ExecOutcome> {
  const { name, command, timeoutMs } = request;
  const place = { pod: name, container: WORKLOAD_CONTAINER, maxBytes: MAX_OUTPUT_BYTES };
  const run = await runInContainer({ ...place, command, timeoutMs }, options);
  switch (run.kind) {
    case "ended": {
      const { stdout, stderr, exitCode, isCut } = run;
      return { stdout, stderr, exitCode, ...(isCut && { truncated: true as const }) };
    }
    case "failed":
      throw instanceError(run.stderr, { name });
    case "late":
      throw new HttpError(
        504,
        `the command has not finished after ${timeoutMs / 1000} s; it may still run in the instance. body.timeoutSeconds can be up to 3600`,
        { expected: true },
      );
    case "client gone":
      throw new HttpError(499, "the client went away");
    case "stopped":
      throw new HttpError(503, "the server is stopping; the command may still run in the instance");
    default:
      return run satisfies never;
  }
}
