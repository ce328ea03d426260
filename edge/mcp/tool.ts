import * as v from "valibot";
import { bodySchema } from "../api/api-route.ts";
import type { OpenApiSchema } from "../api/openapi/request-schemas.ts";
import type { Client } from "../client/index.ts";

/** What a tool works with. */
export interface ToolContext {
  /** Makes calls with the caller's key. */
  readonly client: Client;
  /** Aborted when the caller cancels the call or leaves. */
  readonly signal: AbortSignal;
  /** Sends a text about how far it is; undefined if the caller did not ask for it. */
  readonly report: ((message: string) => void) | undefined;
}

/** https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations */
interface Annotations {
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** A tool as clients list it. */
export interface ListedTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: Annotations;
  readonly inputSchema: OpenApiSchema & { type: "object" };
  readonly outputSchema: OpenApiSchema & { type: "object" };
}

export interface Tool {
  readonly listed: ListedTool;
  /** @throws ApiError; {@link InputError} */
  call(input: unknown, context: ToolContext): Promise<Record<string, unknown>>;
}

/** The arguments of a call are wrong; the message says which and how. */
export class InputError extends Error {
  override readonly name = "InputError";
}

type Input = v.StrictObjectSchema<v.ObjectEntries, undefined>;
type Output = v.ObjectSchema<v.ObjectEntries, undefined>;

export function defineTool<const In extends Input, const Out extends Output>(tool: {
  name: string;
  title: string;
  description: string;
  annotations: Annotations;
  input: In;
  output: Out;
  call(input: v.InferOutput<In>, context: ToolContext): Promise<v.InferOutput<Out>>;
}): Tool {
  const { name, title, description, annotations, input, output } = tool;
  const schemaOf = (schema: Input | Output) => bodySchema(schema) as ListedTool["inputSchema"];
  return {
    listed: {
      ...{ name, title, description, annotations },
      ...{ inputSchema: schemaOf(input), outputSchema: schemaOf(output) },
    },
    async call(given, context) {
      const read = v.safeParse(input, given);
      if (read.success) return await tool.call(read.output, context);
      const problems = read.issues.map((issue) => `${v.getDotPath(issue) ?? "arguments"}: ${issue.message}`);
      throw new InputError([...new Set(problems)].slice(0, 10).join("; "));
    },
  };
}
