import { mayGiveKeys } from "../api/access.ts";
import { session } from "../api/session.ts";
import { AsText } from "../parts/as-text.tsx";
import { curlLine } from "../parts/command.tsx";

/** How programs that people have claim the workload here: to copy, with the address of this page. */
export function Connect({ workload }: { workload: string }) {
  const { origin } = location;
  const asksForKey = session.value?.asksForKey === true;
  // E2B's SDKs want a key where none is asked for.
  const [js, python] = asksForKey
    ? ["process.env.TENANCY_API_KEY", 'os.environ["TENANCY_API_KEY"]']
    : ['"any text"', '"any text"'];
  const texts = {
    curl: curlLine("/tenants/alice/claim", { workload }),
    tenancy: [
      `export TENANCY_URL=${origin}${asksForKey ? ' TENANCY_KEY="$TENANCY_API_KEY"' : ""}`,
      `tenancy claim alice ${workload}`,
      `tenancy logs alice/${workload}`,
      `tenancy release alice/${workload}`,
    ].join("\n"),
    JavaScript: [
      'import { createClient } from "tenancy-client";',
      "",
      `const client = createClient({ url: "${origin}"${asksForKey ? `, key: ${js}` : ""} });`,
      `const claim = await client.claim("alice", "${workload}");`,
    ].join("\n"),
    "E2B in JavaScript": [
      'import { Sandbox } from "e2b";',
      "",
      `const sandbox = await Sandbox.create("${workload}", {`,
      `  apiUrl: "${origin}/e2b",`,
      `  sandboxUrl: "${origin}",`,
      `  apiKey: ${js},`,
      "});",
    ].join("\n"),
    "E2B in Python": [
      ...(asksForKey ? ["import os", ""] : []),
      "from e2b import Sandbox",
      "",
      "sandbox = Sandbox.create(",
      `    "${workload}",`,
      `    api_url="${origin}/e2b",`,
      `    sandbox_url="${origin}",`,
      `    api_key=${python},`,
      ")",
    ].join("\n"),
    MCP: JSON.stringify(
      {
        mcpServers: {
          tenancy: {
            ...{ type: "http", url: `${origin}/mcp` },
            ...(asksForKey && { headers: { Authorization: `Bearer \${TENANCY_API_KEY}` } }),
          },
        },
      },
      null,
      2,
    ),
  };
  return (
    <AsText title="Connect" texts={texts}>
      {asksForKey && (
        <p class="muted">
          TENANCY_API_KEY is a key that may claim for the tenant; E2B's SDKs make tenants, so theirs has a start of ids.{" "}
          {mayGiveKeys() && <a href="/dashboard/keys">Make a key</a>}
        </p>
      )}
    </AsText>
  );
}
