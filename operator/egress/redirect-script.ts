import { closedRanges } from "../cluster/address-ranges.ts";
import { REDIRECT_PORT } from "./layout.ts";

/**
 * Renders the shell script that closes a pod's network except for the proxy. TCP 443 of all users except the proxy's is
 * redirected to the proxy. All other traffic is refused at once, except DNS to the resolvers of `resolv.conf`,
 * loopback, and replies. It needs `nft` and NET_ADMIN, and replaces the rules of an earlier run
 * (https://wiki.nftables.org).
 *
 * @param proxyUid the proxy's user
 */
export function redirectScript({
  proxyUid,
  resolvConf = "/etc/resolv.conf",
}: {
  proxyUid: number;
  resolvConf?: string;
}): string {
  if (!Number.isSafeInteger(proxyUid) || proxyUid <= 0) throw new TypeError(`Cannot redirect for user ${proxyUid}`);
  const closed = (version: 4 | 6) => closedRanges.filter((range) => range.includes(":") === (version === 6)).join(", ");
  return `set -e
resolvers4= resolvers6=
while read -r keyword address rest; do
  [ "$keyword" = nameserver ] || continue
  address=\${address%%%*}
  case $address in
    *[!0-9a-fA-F:.]* | '') echo "tenancy: resolv.conf names $address, which is no address" >&2; exit 1 ;;
    *:*) resolvers6="$resolvers6 ip6 daddr $address meta l4proto { tcp, udp } th dport 53 accept;" ;;
    *) resolvers4="$resolvers4 ip daddr $address meta l4proto { tcp, udp } th dport 53 accept;" ;;
  esac
done < ${resolvConf}
nft -f - << rules
table inet tenancy_egress
delete table inet tenancy_egress
table inet tenancy_egress {
  chain to_proxy {
    type nat hook output priority -100; policy accept;
    meta skuid ${proxyUid} return
    fib daddr type local return
    tcp dport 443 redirect to :${REDIRECT_PORT}
  }
  chain all_else {
    type filter hook output priority 0; policy drop;
    ct state established,related accept
    $resolvers4
    $resolvers6
    meta skuid ${proxyUid} ip daddr { ${closed(4)} } reject with icmpx type admin-prohibited
    meta skuid ${proxyUid} ip6 daddr { ${closed(6)} } reject with icmpx type admin-prohibited
    fib daddr type local accept
    meta skuid ${proxyUid} tcp dport 443 accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld-listener-report, mld2-listener-report } accept
    reject with icmpx type admin-prohibited
  }
}
rules`;
}
