import type { ApiTypes } from "../../api/openapi/schemas.ts";

type Network = ApiTypes["WorkloadSpec"]["network"];

/**
 * What a workload's containers may reach, and where they are reached: sentences; docs/explanation/isolation.md has the
 * whole table.
 */
export function networkWords(network: Network = {}): string[] {
  const { access = "none", allowlist = [], credentials = [], ports = [], expose = "none" } = network;
  const words = [outward(access, allowlist)];
  for (const { domain, headers } of credentials) {
    const names = headers.map(({ name }) => name).join(", ");
    words.push(`Requests to ${domain} get ${names || "no header"}, whose value the container never sees.`);
  }
  words.push(
    ports.length === 0
      ? "It names no port that it listens on."
      : `It listens on port ${ports[0]}${ports.length > 1 ? `, also on ${ports.slice(1).join(", ")}` : ""}.`,
  );
  words.push(inward(expose));
  words.push("No instance reaches another one, of the same tenant neither.");
  return words;
}

function outward(access: NonNullable<Network>["access"], allowlist: readonly string[]): string {
  switch (access) {
    case "restricted":
      return allowlist.length === 0
        ? "It reaches DNS and any host over HTTPS (port 443), nothing else."
        : `It reaches DNS and, over HTTPS, ${allowlist.map(domainWords).join(", ")}; nothing else.`;
    case "unrestricted":
      return "It reaches all but other instances and link-local addresses, such as that of a cloud's metadata.";
    default:
      return "It reaches nothing, DNS neither.";
  }
}

function inward(expose: NonNullable<NonNullable<Network>["expose"]>): string {
  switch (expose) {
    case "key":
      return "At the front door it is there for those who have the API key.";
    case "link":
      return "At the front door it is there for those who have a signed link or the API key.";
    case "public":
      return "At the front door it is there for everybody.";
    default:
      return "It is closed to the front door.";
  }
}

function domainWords(domain: string): string {
  return domain.startsWith("*.") ? `every name below ${domain.slice(2)}` : domain;
}
