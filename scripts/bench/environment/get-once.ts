import { get } from "node:http";

/**
 * Asks over a connection of its own. A kept one may be closed under the request: a process that has just been busy sees
 * too late that the server has given it up (https://www.rfc-editor.org/rfc/rfc9112#section-9.3.1).
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
