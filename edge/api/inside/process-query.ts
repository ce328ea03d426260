import { type PathRule, queryText } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";

export const pidRule: PathRule = {
  accepts: (value) => /^[1-9]\d{0,6}$/.test(value) && Number(value) <= 2 ** 22,
  says: "a pid is a whole number, as the list of processes shows it",
};

const offsetRule: PathRule = {
  accepts: (value) => /^(?:0|-?[1-9]\d{0,14})$/.test(value),
  says: "an offset is a whole number of bytes; a negative one counts from the end",
};
const offsetSchema = (output: string): OpenApiSchema => ({
  ...{ type: "integer", minimum: 1 - 10 ** 15, maximum: 10 ** 15 - 1 },
  description: `The first byte of ${output} that is wanted; a negative number counts from the end. By default the first that is kept.`,
});

/** The query parameters that {@link offsetsOf} reads. */
export const offsetSchemas = { stdoutFrom: offsetSchema("stdout"), stderrFrom: offsetSchema("stderr") };

/** Where a reader of a process's outputs begins, as the program in the pod takes it. */
export function offsetsOf(request: RoutedRequest): { stdout?: number; stderr?: number } {
  const [stdout, stderr] = ["stdoutFrom", "stderrFrom"].map((name) => queryText(request, name, offsetRule));
  return {
    ...(stdout !== undefined && { stdout: Number(stdout) }),
    ...(stderr !== undefined && { stderr: Number(stderr) }),
  };
}
