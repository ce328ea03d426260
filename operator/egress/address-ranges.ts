import { isIP } from "node:net";

/**
 * Never reached, whatever a name resolves to: this host, link-local addresses (cloud metadata among them), multicast,
 * and ways to write those in IPv6 (RFC 6890; RFC 6052, section 2.1).
 */
export const closedRanges: readonly string[] = [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/127",
  "64:ff9b::/104",
  "64:ff9b::7f00:0/104",
  "64:ff9b::a9fe:0/112",
  "fd00:ec2::254/128",
  "fe80::/10",
  "ff00::/8",
];

/**
 * Reached only where the cluster opens a part of them: private networks, which hold the cluster's own addresses (RFC
 * 6890).
 */
export const privateRanges: readonly string[] = [
  "10.0.0.0/8",
  "100.64.0.0/10",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "64:ff9b::a00:0/104",
  "64:ff9b::6440:0/106",
  "64:ff9b::ac10:0/108",
  "64:ff9b::c0a8:0/112",
  "64:ff9b:1::/48",
  "fc00::/7",
  "fec0::/10",
];

/** Whether a text is an IPv4 or IPv6 range such as `10.1.0.0/16`. */
export function isAddressRange(text: string): boolean {
  const [address = "", length = "", ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || address.includes("%") || rest.length > 0 || !/^[0-9]{1,3}$/.test(length)) return false;
  return Number(length) <= (version === 4 ? 32 : 128);
}
