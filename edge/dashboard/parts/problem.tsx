import { useState } from "preact/hooks";
import { CallError } from "../api/call.ts";

/** Shows an error in the API's own words, with the request id if the edge is at fault. */
export function Problem({ error }: { error: Error | undefined }) {
  if (error === undefined) return null;
  const requestId = error instanceof CallError && error.status >= 500 ? error.requestId : undefined;
  return (
    <div class="problem" role="alert">
      <p>{error.message}</p>
      {requestId !== undefined && (
        <p class="muted">
          request <code>{requestId}</code> <Copy text={requestId} label="Copy request id" />
        </p>
      )}
    </div>
  );
}

/** As `Problem`; a line for what the login may not read, or what this server does not have. */
export function Unread({ error }: { error: Error | undefined }) {
  if (error instanceof CallError && (error.status === 403 || error.status === 404)) {
    return <p class="muted">{error.message}</p>;
  }
  return <Problem error={error} />;
}

/** Says that the first answer has not come. */
export function Reading({ of: { value, error } }: { of: { value: unknown; error: Error | undefined } }) {
  return value === undefined && error === undefined ? <p class="muted">Reading…</p> : null;
}

function Copy({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  // Browsers offer no clipboard on plain HTTP pages except on loopback.
  if (navigator.clipboard === undefined) return null;
  return (
    <button type="button" aria-label={label} onClick={() => void copy()}>
      {isCopied ? "Copied" : "Copy"}
    </button>
  );

  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  }
}
