/** The address of a server as a URL, with brackets round an IPv6 host. */
export function serverUrl(hostname: string, port: number): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
