import { isJson, jsonResponse } from "../http/response.ts";

/** Fields with texts of programs: Kubernetes puts the last output of a container that failed into its message. */
const TEXTS = new Set(["message", "waitsFor"]);
const HIDDEN = "not shown to a key of the role reader";

/** Replaces what programs may have printed in a JSON response. */
export async function hideMessages(response: Response): Promise<Response> {
  if (!isJson(response.headers)) return response;
  const body: unknown = JSON.parse(await response.text(), (name, value: unknown) =>
    TEXTS.has(name) && typeof value === "string" ? HIDDEN : value,
  );
  const { "content-length": _, ...headers } = Object.fromEntries(response.headers);
  return jsonResponse(body, { status: response.status, headers });
}
