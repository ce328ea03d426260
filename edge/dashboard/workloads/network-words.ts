import type { ApiTypes } from "../../api/openapi/schemas.ts";

type Network = ApiTypes["WorkloadSpec"]["network"];

/** Sentences about a workload's network access in both directions; docs/explanation/isolation.md has the whole table. */
export function networkWords(network: Network = {}): string[] {
  const { access = "none", allowlist = [], credentials = [], ports = [], expose = "none" } = network;
  const words = [outward(access, allowlist)];
  for (const { domain, headers } of credentials) {
    const names = headers.map(({ name }) => name).join(", ");
    words.push(`Requests to ${domain} get ${names || "no header"}; the container never sees the value.`);
  }
  words.push(
    ports.length === 0
      ? "It declares no listening port."
      : `It listens on port ${ports[0]}${ports.length > 1 ? `, also on ${ports.slice(1).join(", ")}` : ""}.`,
  );
  words.push(inward(expose));
  words.push("Instances cannot reach each other, even of the same tenant.");
  return words;
}

function outward(access: NonNullable<Network>["access"], allowlist: readonly string[]): string {
  switch (access) {
    case "restricted":
      return allowlist.length === 0
        ? "It can reach DNS and any host over HTTPS (port 443), nothing else."
        : `It can reach DNS and, over HTTPS, ${allowlist.map(domainWords).join(", ")}; nothing else.`;
    case "unrestricted":
      return "It can reach everything except other instances and link-local addresses, such as cloud metadata.";
    default:
      return "No outbound network, including DNS.";
  }
}

function inward(expose: NonNullable<NonNullable<Network>["expose"]>): string {
  switch (expose) {
    case "key":
      return "The front door serves it to callers with the API key.";
    case "link":
      return "The front door serves it to callers with a signed link or the API key.";
    case "public":
      return "The front door serves it to everyone.";
    default:
      return "The front door does not serve it.";
  }
}

function domainWords(domain: string): string {
  return domain.startsWith("*.") ? `every name under ${domain.slice(2)}` : domain;
}
