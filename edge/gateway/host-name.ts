/** The host of an address as sockets want it, an IPv6 address without brackets. */
export function hostName({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}
