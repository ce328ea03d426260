import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";

/** An assistant: the SDK's own client, connected to an edge. */
export async function connectMcp(url: string, headers: Record<string, string>) {
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", url), { requestInit: { headers } });
  const client = new Client({ name: "test", version: "1" });
  // The SDK's own type does not fit exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Client["connect"]>[0]);
  return {
    client,
    transport,
    /** Calls a tool of ann's claim on the workload `app`. */
    async call(
      name: string,
      given: Record<string, unknown> = {},
      options: Parameters<Client["callTool"]>[2] = {},
    ): Promise<Called> {
      const params = { name, arguments: { tenant: "ann", workload: "app", ...given } };
      const { content, structuredContent, isError } = (await client.callTool(
        params,
        undefined,
        options,
      )) as CallToolResult;
      const [first] = content;
      const text = first?.type === "text" ? first.text : "";
      return { text, output: structuredContent ?? {}, isError: isError === true };
    },
  };
}

export interface Called {
  readonly text: string;
  readonly output: Record<string, unknown>;
  readonly isError: boolean;
}
