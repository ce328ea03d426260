import { splitName } from "../registry/parse-reference.ts";

/** What a container runtime says of a pull that failed, and the cause in few words. */
const CAUSES: readonly [said: RegExp, cause: (match: RegExpExecArray, host: string) => string][] = [
  [/lookup ([^\s:]+)(?: on \S+)?: no such host/, ([, name]) => `no such host ${name}`],
  [/lookup ([^\s:]+)(?: on \S+)?: (.+)/, ([, name, why]) => `the host name ${name} cannot be resolved (${why})`],
  [
    /dial tcp (\S+): connect: (connection refused|no route to host|network is unreachable)/,
    ([, address, what], host) => `${what} by ${host} (${address})`,
  ],
  [/dial tcp (\S+): i\/o timeout/, ([, address], host) => `no answer from ${host} (${address})`],
  [/TLS handshake timeout|Client\.Timeout|context deadline exceeded/, (_, host) => `no answer from ${host} in time`],
  [/x509: (.+)/, ([, why], host) => `the certificate of ${host} is not trusted (${why})`],
  [/server gave HTTP response to HTTPS client/, (_, host) => `${host} answers HTTP, not HTTPS`],
  [/toomanyrequests|429 Too Many Requests/, (_, host) => `${host} accepts no more pulls for now (429)`],
  [
    /40[13] (?:Unauthorized|Forbidden)|(?<!permission )denied|authorization failed|authentication required|no basic auth credentials/i,
    ([status], host) => `access denied by ${host}${/^40/.test(status) ? ` (${status})` : ", or no such repository"}`,
  ],
  [/no match(?:ing manifest)? for/, () => "the image has no build for the platform of the node"],
  [/manifest unknown|name unknown|404 Not Found|: not found$/, (_, host) => `no such image or tag in ${host}`],
  [/no space left on device/, () => "no space left on the disk of the node"],
  [/not present with pull policy of Never/, () => "the node does not have it, and pulls no images"],
  [/invalid reference format|couldn't parse image/, () => "the image name is not valid"],
];

/** What kubelets and runtimes put before the cause. */
const BEFORE =
  /^(?:Back-off pulling image "[^"]*"|ErrImagePull|rpc error: code = \w+ desc =|[Ff]ailed to pull(?: and unpack)? image "[^"]*"|failed to resolve reference "[^"]*"|failed to do request|Error response from daemon):? */;

/**
 * The cause of a pull that failed, such as "no such host registry.example.com". Runtimes put it at the end of a chain
 * of what they tried, with the image in each link; the Events of the pod keep that chain.
 */
export function pullCause(said: string, image: string): string {
  const host = /\bhttps?:\/\/([^/"]+)/.exec(said)?.[1] ?? splitName(image).host;
  for (const [pattern, cause] of CAUSES) {
    const match = pattern.exec(said);
    if (match !== null) return cause(match, host);
  }
  let rest = said;
  for (let next = rest.replace(BEFORE, ""); next !== rest; next = rest.replace(BEFORE, "")) rest = next;
  return rest || said;
}
