import type { DriverCall } from "./driver.ts";

/**
 * The address that a call goes to: the claim's endpoint, with `driverOptions.path` or the driver's own path, never another host.
 *
 * @throws Error when the host is none
 */
export function callUrl({ endpoint, options }: DriverCall, defaults: { scheme: "http" | "ws"; path: string }): URL {
  const { host, port } = endpoint;
  const path = options?.path ?? defaults.path;
  return new URL(
    `${defaults.scheme}://${host.includes(":") ? `[${host}]` : host}:${port}${path.startsWith("/") ? path : `/${path}`}`,
  );
}
