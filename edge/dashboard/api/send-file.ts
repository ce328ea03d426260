import { CallError, okResponse } from "./call.ts";

/**
 * Calls the API with a file and reports the bytes sent, which `fetch` cannot.
 *
 * @throws CallError as `call` does; the signal's reason
 */
export async function sendFile<T>(
  method: "PUT",
  path: string,
  options: {
    file: Blob;
    onSent: (bytes: number) => void;
    signal: AbortSignal;
    type: "application/gzip" | "application/octet-stream";
    /** Whether it must not replace anything: `If-None-Match: *`. @default false */
    isNew?: boolean;
  },
): Promise<T> {
  const { file, onSent, signal, type, isNew = false } = options;
  signal.throwIfAborted();
  const request = new XMLHttpRequest();
  const abort = (): void => request.abort();
  signal.addEventListener("abort", abort);
  try {
    await new Promise<void>((resolve, reject) => {
      request.open(method, `/api/v1${path}`);
      request.setRequestHeader("content-type", type);
      if (isNew) request.setRequestHeader("if-none-match", "*");
      request.upload.onprogress = ({ loaded }) => onSent(loaded);
      request.onload = () => resolve();
      request.onerror = () =>
        reject(new CallError("Cannot send the file: it cannot be read, or the edge cannot be reached", { status: 0 }));
      request.onabort = () => reject(signal.reason);
      request.send(file);
    });
  } finally {
    signal.removeEventListener("abort", abort);
  }
  const { status, statusText, responseText } = request;
  const headers = new Headers();
  for (const name of ["retry-after", "x-request-id"]) {
    const value = request.getResponseHeader(name);
    if (value !== null) headers.set(name, value);
  }
  return (await (await okResponse(new Response(responseText, { status, statusText, headers }))).json()) as T;
}
