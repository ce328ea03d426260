import { get } from "node:http";

/**
 * Sends a request over a new connection. The server may have closed an idle connection, and a busy process would notice
 * that too late (https://www.rfc-editor.org/rfc/rfc9112#section-9.3.1).
 */
export function getOnce(url: string, { timeoutMs }: { timeoutMs: number }): Promise<{ ok: boolean; text: string }> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const request = get(url, { agent: false, headers: { connection: "close" }, signal }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => {
        text += piece;
      });
      response.on("error", reject).on("end", () => resolve({ ok: response.statusCode === 200, text }));
    });
    request.on("error", reject);
  });
}
