import { BlockList, isIP } from "node:net";

/**
 * The addresses where clouds serve a machine's metadata and credentials, also in their IPv6 form (NAT64, RFC 6052):
 * link-local addresses, and other ones of Alibaba, Azure, Oracle, Amazon and Google. No network policy opens them; the
 * policies of manifests/ have the same list.
 */
export const metadataRanges: readonly string[] = [
  "169.254.0.0/16",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.192/32",
  "64:ff9b::a9fe:0/112",
  "64:ff9b::6464:64c8/128",
  "64:ff9b::a83f:8110/128",
  "64:ff9b::c000:c0/128",
  "fd00:ec2::/32",
  "fd20:ce::254/128",
  "fe80::/10",
];

/**
 * Addresses that no proxy and no build may reach, even if a name resolves to them: metadata services, this host,
 * multicast, and their IPv6 forms (RFC 6890; RFC 6052, section 2.1).
 */
export const closedRanges: readonly string[] = [
  ...metadataRanges,
  "0.0.0.0/8",
  "127.0.0.0/8",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/127",
  "64:ff9b::/104",
  "64:ff9b::7f00:0/104",
  "ff00::/8",
];

/**
 * Private networks, which include the cluster's own addresses (RFC 6890). Proxies and builds reach only the parts that
 * the configuration opens.
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

/** The ranges that are real parts of `range`. */
export function partsOf(range: string, ranges: readonly string[]): string[] {
  const [start = "", length] = range.split("/");
  const whole = new BlockList();
  const family = familyOf(start);
  whole.addSubnet(start, Number(length), family);
  return ranges.filter((part) => {
    const [first = "", bits] = part.split("/");
    return familyOf(first) === family && Number(bits) > Number(length) && whole.check(first, family);
  });
}

/** Returns whether an address lies in one of the ranges; `::ffff:127.0.0.1` lies where `127.0.0.1` does. */
export function inRanges(ranges: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const range of ranges) {
    const [start = "", length] = range.split("/");
    list.addSubnet(start, Number(length), familyOf(start));
  }
  return (address) => list.check(address, familyOf(address));
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 4 ? "ipv4" : "ipv6";
}

/** Whether a text is an IPv4 or IPv6 range such as `10.1.0.0/16`. */
export function isAddressRange(text: string): boolean {
  const [address = "", length = "", ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || address.includes("%") || rest.length > 0 || !/^[0-9]{1,3}$/.test(length)) return false;
  return Number(length) <= (version === 4 ? 32 : 128);
}
