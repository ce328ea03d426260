import { useState } from "preact/hooks";
import { session } from "../api/session.ts";

/** A shell command with a copy button. */
export function Command({ line }: { line: string }) {
  const [copied, setCopied] = useState("");
  return (
    <div class="command">
      <pre>{line}</pre>
      {/* Browsers offer no clipboard on plain HTTP pages except on loopback. */}
      {navigator.clipboard !== undefined && (
        <button type="button" onClick={() => void copy()}>
          {copied === line ? "Copied" : "Copy"}
        </button>
      )}
    </div>
  );

  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(line);
    setCopied(line);
  }
}

/** An API call as a shell command. The page does not have the key, so the command reads it from a variable. */
export function curlLine(path: string, body: object, { method }: { method?: string } = {}): string {
  const key = session.value?.asksForKey === true ? ' -H "authorization: Bearer $TENANCY_API_KEY"' : "";
  const how = method === undefined ? "" : ` -X ${method}`;
  // A single quote would end the shell's string.
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl${how} ${location.origin}/api/v1${path}${key} --json '${json}'`;
}
