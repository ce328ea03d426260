import { useState } from "preact/hooks";
import { session } from "../api/session.ts";

/** A line for a terminal, to be copied. */
export function Command({ line }: { line: string }) {
  const [copied, setCopied] = useState("");
  return (
    <div class="command">
      <pre>{line}</pre>
      {/* Browsers have no clipboard for pages of plain HTTP beyond loopback. */}
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

/** A call of the API as a line for a terminal; the key is not in the page, so its variable is named. */
export function curlLine(path: string, body: object): string {
  const key = session.value?.asksForKey === true ? ' -H "authorization: Bearer $TENANCY_API_KEY"' : "";
  return `curl ${location.origin}/api/v1${path}${key} --json '${JSON.stringify(body)}'`;
}
