import { closedRanges, isAddressRange, privateRanges } from "../cluster/address-ranges.ts";
import type { DomainPattern } from "./domain-pattern.ts";
import { type Credential, type EgressRules, valueVariable } from "./egress-rules.ts";
import {
  HEALTH_PORT,
  type ProxyFolders,
  proxyFolders,
  READY_PATH,
  REDIRECT_PORT,
  upstreamAuthorities,
} from "./layout.ts";

export interface ProxyConfigOptions {
  readonly rules: EgressRules;
  /** Private ranges that names may resolve to, such as `10.1.0.0/16`. @default none */
  readonly openedRanges?: readonly string[] | undefined;
  /** @default the folders of the sidecar */
  readonly folders?: ProxyFolders | undefined;
}

/**
 * Renders the proxy's configuration, https://docs.haproxy.org/2.6/configuration.html.
 *
 * The parts that come from a workload are names of letters, digits, `-`, `_` and `.`, so they have no character with a
 * meaning in HAProxy. Values of headers are not in it, only names of environment variables.
 *
 * @throws TypeError if a range is not valid
 */
export function renderProxyConfig({ rules, openedRanges = [], folders = proxyFolders }: ProxyConfigOptions): string {
  for (const range of openedRanges) {
    if (!isAddressRange(range))
      throw new TypeError(`Cannot open ${JSON.stringify(range)}: it is not a range such as 10.1.0.0/16`);
  }
  const hasCredentials = rules.credentials.length > 0;
  const sections = [
    globalSection(folders),
    healthSection,
    redirectSection(rules, openedRanges),
    ...(hasCredentials ? [injectSection(rules, openedRanges, folders)] : []),
    ...rules.credentials.map((credential, index) => credentialSection(credential, index, folders)),
  ];
  return `${sections.join("\n\n")}\n`;
}

function globalSection({ run }: ProxyFolders): string {
  return `global
    # Enough for the longest name with all characters escaped, and less than a pipe takes in one piece.
    log stdout len 2048 format raw local0 info
    stats socket ${run}/haproxy.sock mode 600 level admin expose-fd listeners
    # One thread: the sidecar has a share of a core, and one thread for each core of the node would cost memory.
    nbthread 1
    maxconn 1000
    # How long connections may continue with replaced settings.
    hard-stop-after 1h
    # With the default of 64 KiB, a download with a latency of 100 ms gets 0.6 MiB/s.
    tune.h2.initial-window-size 1048576
    ssl-default-bind-options ssl-min-ver TLSv1.2
    ssl-default-server-options ssl-min-ver TLSv1.2

defaults
    mode tcp
    log global
    option dontlog-normal
    option clitcpka
    option srvtcpka
    retries 1
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    timeout tunnel 24h
    timeout client-fin 5m
    timeout server-fin 5m
    timeout http-request 30s
    timeout http-keep-alive 5m

resolvers pod
    parse-resolv-conf
    accepted_payload_size 8192
    resolve_retries 3
    timeout resolve 1s
    timeout retry 1s
    hold valid 5s
    hold nx 1s
    hold other 1s
    hold refused 1s
    hold timeout 1s
    hold obsolete 0s`;
}

const healthSection = `frontend health
    mode http
    no log
    bind 0.0.0.0:${HEALTH_PORT}
.if defined(TENANCY_IPV6)
    bind [::]:${HEALTH_PORT} v6only
.endif
    monitor-uri ${READY_PATH}
    http-request use-service prometheus-exporter if { path /metrics }
    http-request deny deny_status 404`;

function redirectSection({ allowed, credentials }: EgressRules, openedRanges: readonly string[]): string {
  const wildcards = credentials.filter(({ domain }) => domain.isWildcard).map(({ domain }) => domain);
  const exact = credentials.filter(({ domain }) => !domain.isWildcard).map(({ domain }) => domain);
  const injected = [
    ...exact.map(({ name }) => `    acl injected var(txn.name) -m str ${name}`),
    // A certificate for *.example.com is valid for exactly one label.
    ...wildcards.map(({ name }) => `    acl injected var(txn.parent) -m str ${name}`),
  ];
  return `frontend redirect
    bind 127.0.0.1:${REDIRECT_PORT}
.if defined(TENANCY_IPV6)
    bind [::1]:${REDIRECT_PORT} v6only
.endif
    log-format '${logLine}'
    tcp-request inspect-delay 10s
${refuse("not-tls", "!{ req.ssl_hello_type 1 }")}
${refuse("no-server-name", "!{ req.ssl_sni -m found }")}
    tcp-request content set-var(txn.name) req.ssl_sni,lower
    tcp-request content set-var(txn.parent) req.ssl_sni,lower,field(2,.,0)
${refuse("illegal-name", "!{ var(txn.name) -m reg '^[a-z0-9_-]+([.][a-z0-9_-]+)*$' }")}
${injected.join("\n")}
${injected.length > 0 ? "    tcp-request content set-var(txn.reason) str(failed) if injected\n    tcp-request content accept if injected" : ""}
${wildcards.map(({ name }) => `    acl too_deep var(txn.name) -m end .${name}`).join("\n")}
${wildcards.length > 0 ? refuse("too-deep-for-credential", "too_deep") : ""}
${(allowed ?? []).map(allowedLine).join("\n")}
${allowed === undefined ? "" : refuse("not-listed", "!allowed")}
    tcp-request content do-resolve(txn.address,pod,ipv4) var(txn.name)
${refuse("not-resolved", "!{ var(txn.address) -m found }")}
${rangeLines("txn.address", openedRanges)}
${refuse("closed-address", "closed")}
${refuse("private-address", "private !opened")}
    tcp-request content set-var(txn.reason) str(failed)
    tcp-request content set-dst var(txn.address)
${injected.length > 0 ? "    use_backend inject if injected" : ""}
    default_backend pass

backend pass
${silentWhenAnswered}
    # 0.0.0.0 stands for the address that was set above.
    server upstream 0.0.0.0:443`.replaceAll(/\n{2,}(?!backend|frontend)/g, "\n");
}

function allowedLine({ name, isWildcard }: DomainPattern): string {
  return isWildcard ? `    acl allowed var(txn.name) -m end .${name}` : `    acl allowed var(txn.name) -m str ${name}`;
}

function rangeLines(variable: string, openedRanges: readonly string[]): string {
  const lines = (name: string, ranges: readonly string[]) =>
    ranges.map((range) => `    acl ${name} var(${variable}) -m ip ${range}`);
  return [
    ...lines("closed", closedRanges),
    ...lines("private", privateRanges),
    // An ACL that matches nothing, so that the rule can name it.
    ...(openedRanges.length > 0 ? lines("opened", openedRanges) : ["    acl opened always_false"]),
  ].join("\n");
}

function injectSection(
  { credentials }: EgressRules,
  openedRanges: readonly string[],
  { settings, run }: ProxyFolders,
): string {
  return `backend inject
${silentWhenAnswered}
    server inject unix@${run}/inject.sock

frontend inject
    mode http
    # A path in the sidecar's file system: the workload shares the network with the proxy, but no files.
    bind unix@${run}/inject.sock mode 600 ssl crt ${settings}/leaves strict-sni alpn h2,http/1.1
    log-format '${logLine}'
    error-log-format '{"level":"warn","msg":"TLS from the workload failed","error":"%[ssl_fc_err_str,json(utf8s)]"}'
    http-request set-var(txn.name) ssl_fc_sni,lower
    http-request set-var(txn.parent) ssl_fc_sni,lower,field(2,.,0)
    http-request set-var(txn.host) req.hdr(host),host_only,lower
${answer(421, "other-host", "!{ var(txn.host),strcmp(txn.name) eq 0 }")}
    # The answer to TRACE would contain the request with its credentials.
${answer(405, "method", "METH_TRACE or METH_CONNECT")}
    # Resolve once for each connection: HAProxy has no DNS cache, and would otherwise resolve for each request.
    http-request do-resolve(sess.address,pod,ipv4) var(txn.name) if !{ var(sess.address) -m found }
${answer(502, "not-resolved", "!{ var(sess.address) -m found }")}
${rangeLines("sess.address", openedRanges)}
${answer(403, "closed-address", "closed")}
${answer(403, "private-address", "private !opened")}
    http-request set-var(txn.reason) str(failed)
    http-request set-dst var(sess.address)
    # Another address may work.
    http-after-response unset-var(sess.address) if { status 502:504 }
${credentials
  .map(
    ({ domain }, index) =>
      `    use_backend credential_${index} if { var(${domain.isWildcard ? "txn.parent" : "txn.name"}) -m str ${domain.name} }`,
  )
  // An exact name goes before a wildcard that matches it too.
  .sort((a, b) => Number(a.includes("txn.parent")) - Number(b.includes("txn.parent")))
  .join("\n")}`;
}

function credentialSection({ headers }: Credential, index: number, folders: ProxyFolders): string {
  const variables = [...new Set(headers.map(({ value }) => valueVariable(value)))];
  return `backend credential_${index}
    mode http
${variables.map((variable) => answer(503, "no-credential", `!{ env(${variable}) -m found }`)).join("\n")}
${headers.map(({ name, value }) => `    http-request set-header ${name} %[env(${valueVariable(value)})]`).join("\n")}
    http-response set-log-level silent
    server upstream 0.0.0.0:443 ssl verify required ca-file ${upstreamAuthorities(folders)} sni var(txn.name) alpn h2,http/1.1`.replaceAll(
    /\n{2,}/g,
    "\n",
  );
}

/**
 * The log line for refused and failed connections; the supervisor adds the tenant. A client sent the name, so it is
 * truncated to the length of a valid name and escaped.
 */
const logLine =
  '{"level":"warn","msg":"egress refused or failed","reason":"%[var(txn.reason)]","name":"%[var(txn.name),bytes(0,253),json(utf8s)]","state":"%ts"}';

// Once the server has answered, the connection was not refused and did not fail, so it is not logged.
const silentWhenAnswered = "    tcp-response content set-log-level silent";

function refuse(reason: string, condition: string): string {
  return `    tcp-request content set-var(txn.reason) str(${reason}) if ${condition}
    tcp-request content reject if ${condition}`;
}

function answer(status: number, reason: string, condition: string): string {
  return `    http-request set-var(txn.reason) str(${reason}) if ${condition}
    http-request deny deny_status ${status} content-type text/plain string "refused by the egress proxy: ${reason}\\n" if ${condition}`;
}
