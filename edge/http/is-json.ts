/** Whether a response's body is one JSON text, which is short and can be had whole; runtimes differ in what follows the type. */
export function isJson(headers: Headers): boolean {
  return headers.get("content-type")?.startsWith("application/json") ?? false;
}
