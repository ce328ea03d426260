import * as v from "valibot";
import { jsonResponse } from "../json-response.ts";
import { execInPod } from "../kubectl/exec-in-pod.ts";
import { pathParam } from "../path-param.ts";
import { readJson } from "../read-json.ts";
import type { Route } from "../route.ts";
import { findInstance } from "./find-instance.ts";
import { instanceNameRule } from "./instance-name-rule.ts";
import type { InstanceServices } from "./instance-services.ts";

const MAX_SECONDS = 3600;
/** One argument of a process can have 128 KiB on Linux, and kubectl sends them all in an address. */
const MAX_COMMAND_BYTES = 100_000;

// A process's argument cannot hold a NUL.
const argument = v.pipe(
  v.string(),
  v.check((text) => !text.includes("\0"), "must not hold a NUL character"),
);
const execBody = v.strictObject({
  command: v.pipe(
    v.array(argument),
    v.minLength(1, 'must name a program, as in ["ls", "-l"]; it has no entry'),
    v.check(([program]) => program !== "", "must start with the name of a program, not with an empty string"),
    v.maxLength(1024, "must have at most 1024 entries"),
    v.check(
      (command) => Buffer.byteLength(command.join("")) <= MAX_COMMAND_BYTES,
      `must have at most ${MAX_COMMAND_BYTES} bytes in all; write more into the instance in pieces`,
    ),
  ),
  timeoutSeconds: v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MAX_SECONDS, `must be at most ${MAX_SECONDS}`),
    ),
    60,
  ),
});

/** `POST /api/v1/instances/{id}/exec`: runs a command in the workload's container (spec.md, section 4.5). */
export function execRoute(services: InstanceServices): Route {
  return {
    method: "POST",
    path: "/api/v1/instances/:id/exec",
    async handle(request, { clientGone, mayBeSilent }) {
      const name = pathParam(request, "id", instanceNameRule);
      const { command, timeoutSeconds } = await readJson(request, execBody);
      await findInstance(name, services);
      mayBeSilent?.();
      const wish = { name, command, timeoutMs: timeoutSeconds * 1000 };
      const { kubectl, clock } = services;
      const signal = clientGone ?? request.signal;
      return jsonResponse(
        await services.activity.during(name, () => execInPod(wish, { kubectl, clock, clientGone: signal })),
      );
    },
  };
}
