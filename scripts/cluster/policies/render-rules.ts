import type { Slot } from "../slot.ts";

/** Name of a slot's chain, which is in every table that a cluster has rules in. */
export function policyChain({ bridge }: Slot): string {
  return `${bridge}-policies`;
}

/**
 * Renders the rules that bring what a cluster's pods send and receive before its policy engine, as `iptables-restore` and
 * `ip6tables-restore` read them. What the machine itself sends to pods passes: probes, execs, the edge. Without an engine that
 * takes from the queue, the kernel drops what is queued.
 *
 * Judged in `mangle`, so that a firewall of the machine in `filter` still has its say about what goes to the machine or beyond;
 * of what goes from pod to pod, which is only asked there because of us, it has none.
 */
export function renderRules(slot: Slot): { readonly v4: string; readonly v6: string } {
  const { bridge, queue } = slot;
  const chain = policyChain(slot);
  const entries = [
    `-I FORWARD -i ${bridge} -j ${chain}`,
    `-I FORWARD ! -i ${bridge} -o ${bridge} -j ${chain}`,
    `-I INPUT -i ${bridge} -j ${chain}`,
  ];
  return {
    v4: restoreInput(chain, {
      mangle: [
        `-A ${chain} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN`,
        `-A ${chain} -m conntrack --ctstate INVALID -j DROP`,
        // The rest of a connection that the engine has ended.
        `-A ${chain} -p tcp ! --syn -j DROP`,
        `-A ${chain} -j NFQUEUE --queue-num ${queue}`,
        ...entries,
      ],
      filter: [`-A ${chain} -j ACCEPT`, `-I FORWARD -i ${bridge} -o ${bridge} -j ${chain}`],
    }),
    // Kubernetes gives these pods no IPv6 address; by the link-local ones, no policy could tell whose they are.
    v6: restoreInput(chain, { mangle: [`-A ${chain} -j DROP`, ...entries] }),
  };
}

function restoreInput(chain: string, tables: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(tables)
    .map(([table, rules]) => [`*${table}`, `:${chain} - [0:0]`, ...rules, "COMMIT", ""].join("\n"))
    .join("");
}
