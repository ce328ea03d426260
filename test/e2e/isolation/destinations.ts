import { world } from "./world.ts";

/** How a workload's pod may reach out, then a step of a build; the last is a pod that no policy selects. */
export type Source = "none" | "restricted" | "restricted, allowlist" | "unrestricted" | "build" | "no policy";

export interface Destination {
  readonly name: string;
  /** A shell command whose first line of output is who has answered; nothing when nobody has. */
  readonly command: string;
  readonly answers: Readonly<Record<Source, string>>;
}

export interface Places {
  /** Addresses of pods. */
  readonly otherTenant: string;
  readonly otherTenantV6: string;
  readonly sameTenant: string;
  readonly unselected: string;
  readonly hostAddress: string;
  readonly kubeletPort: number;
  readonly apiServerPort: number;
}

/** Far more than any answer takes. */
const LIMIT_S = 4;

/** Every place that the table asks for, with who answers whom. */
export function destinations(places: Places): Destination[] {
  const { hostAddress } = places;
  const closed = {
    ...{ none: "-", restricted: "-", "restricted, allowlist": "-", unrestricted: "-", build: "-" },
  } as const;
  const everything = (who: string) => ({ ...closed, unrestricted: who, "no policy": who });
  const https = (who: string) => ({ ...everything(who), restricted: who });
  const outside = (who: string) => ({ ...https(who), build: who });
  const names = (who: string) => ({ ...outside(who), "restricted, allowlist": who });
  const only = (who: string) => ({ ...closed, "no policy": who });
  return [
    { name: "another tenant's pod", command: tcp(places.otherTenant, 8080), answers: only("instance") },
    {
      name: "another tenant's pod, link-local",
      command: tcp(`${places.otherTenantV6}%eth0`, 8080),
      answers: only("-"),
    },
    { name: "another pod of the tenant", command: tcp(places.sameTenant, 8080), answers: only("instance") },
    { name: "pod without policy, TCP 8080", command: tcp(places.unselected, 8080), answers: everything("pod") },
    { name: "pod without policy, TCP 443", command: tcp(places.unselected, 443), answers: https("pod") },
    { name: "kubelet", command: served(hostAddress, places.kubeletPort, "kubelet"), answers: everything("kubelet") },
    { name: "API server", command: served(hostAddress, places.apiServerPort, "API"), answers: everything("API") },
    { name: "metadata, TCP 80", command: tcp(world.metadata, 80), answers: only("metadata") },
    { name: "metadata, HTTPS", command: curl(`https://${world.metadata}/`), answers: only("metadata") },
    { name: "allowed host, HTTPS", command: curl("https://allowed.example/"), answers: names("allowed host") },
    { name: "other host, HTTPS", command: curl("https://other.example/"), answers: outside("other host") },
    { name: "allowed host, TCP 80", command: tcp(world.allowed, 80), answers: everything("allowed host") },
    { name: "allowed host, TCP 22", command: tcp(world.allowed, 22), answers: everything("allowed host") },
    { name: "allowed host, UDP 443", command: tftp(world.allowed, 443), answers: everything("allowed host") },
    { name: "cluster DNS, UDP", command: lookup(""), answers: names("resolver") },
    { name: "cluster DNS, TCP", command: tcp(hostAddress, 53), answers: names("cluster DNS") },
    { name: "another resolver", command: lookup(world.otherResolver), answers: everything("resolver") },
    { name: "other host by address, HTTPS", command: curl(`https://${world.other}/`), answers: outside("other host") },
    {
      name: "other host as the allowed one",
      command: curl(`--connect-to allowed.example:443:${world.other}:443 https://allowed.example/`),
      // The proxy goes by the name and finds the host itself.
      answers: { ...outside("other host"), "restricted, allowlist": "allowed host" },
    },
  ];
}

/** Renders a script that asks for all places at once; each answer is a line that begins with the place's number. */
export function probeScript(places: readonly Destination[]): string {
  const asked = places.map(({ command }, index) => `(${command}) 2>/dev/null | sed -n '1s/^/${index} /p' &`);
  return [...asked, "wait"].join("\n");
}

/** Reads what the script has printed: for each place who has answered, `-` for nobody. */
export function readAnswers(places: readonly Destination[], output: string): string[] {
  const lines = output.split("\n");
  return places.map((_, index) => {
    const line = lines.find((one) => one.startsWith(`${index} `));
    return line === undefined ? "-" : line.slice(`${index} `.length).trim();
  });
}

function tcp(address: string, port: number): string {
  return `timeout ${LIMIT_S} nc ${address} ${port} < /dev/null`;
}

function tftp(address: string, port: number): string {
  return `timeout ${LIMIT_S} tftp -g -r who -l /dev/stdout ${address} ${port}`;
}

function curl(words: string): string {
  return `curl -sk -m ${LIMIT_S} ${words}`;
}

/** Whatever it says, since it asks for a certificate. */
function served(address: string, port: number, who: string): string {
  return `curl -sk -m ${LIMIT_S} -o /dev/null https://${address}:${port}/ && echo ${who}`;
}

function lookup(resolver: string): string {
  return `timeout ${LIMIT_S} nslookup allowed.example ${resolver} | grep -q ${world.allowed} && echo resolver`;
}
