// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { ExecError } from "../../../crds/client/exec/exec-outcome.ts";
import { createLog } from "../../../crds/log.ts";

const test = suite("createLog");

function logged(error: unknown): Record<string, unknown> {
  const lines: string[] = [];
  createLog({ program: "edge", level: "info", destination: { write: (line) => void lines.push(line) } }).warn(
    { error },
    "cannot list",
  );
  assert.is(lines.length, 1);
  const line = JSON.parse(lines[0] ?? "");
  assert.is(line.msg, "cannot list");
  assert.is(line.program, "edge");
  return line.error;
}

test("an error shows with its message, its cause and its own fields", () => {
  const refused = new NetworkError("connect failed", { requestWasSent: false, cause: new Error("ECONNREFUSED") });
  const network = logged(refused);
  assert.is(network.message, "connect failed");
  assert.is(network.cause, "ECONNREFUSED");
  assert.is(network.requestWasSent, false);
  assert.is(network.stack, undefined);
  const api = logged(new ApiError("no", { status: 403, reason: "Forbidden" }));
  assert.equal([api.message, api.status, api.reason], ["no", 403, "Forbidden"]);
  const notRun = logged(new ExecError("Cannot run a command: the pod starts", { reason: "ContainerNotRunning" }));
  assert.equal([notRun.reason, notRun.stack], ["ContainerNotRunning", undefined]);
});

test("an error that says it is expected shows no place in the code", () => {
  const missing = logged(Object.assign(new Error("Secret s does not exist"), { expected: true }));
  assert.equal([missing.message, missing.stack], ["Secret s does not exist", undefined]);
});

test("an error that nobody foresaw shows where it was thrown", () => {
  assert.match(String(logged(new TypeError("oops")).stack), "create-log.test.ts");
});

test("what is no error shows as it is", () => {
  assert.is(logged("text") as unknown, "text");
});

test("levels below the given one are silent", () => {
  const lines: string[] = [];
  const log = createLog({ program: "edge", level: "warn", destination: { write: (line) => void lines.push(line) } });
  log.debug({}, "d");
  log.info({}, "i");
  log.error({}, "e");
  assert.equal(
    lines.map((line) => JSON.parse(line).level),
    [50],
  );
});

test.run();
