// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyWarning, loadConfig } from "../../../edge/config.ts";

const test = suite("loadConfig");

function problemsOf(env: Record<string, string>): string {
  try {
    loadConfig(env);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error(`accepted: ${JSON.stringify(env)}`);
}

test("defaults", () => {
  assert.equal(loadConfig({}), {
    listen: { hostname: "127.0.0.1", port: 8080 },
    namespace: "tenancy",
    apiKey: undefined,
    wsRequireKey: false,
    corsOrigins: new Set(),
    localOnly: true,
    roles: new Set(["api", "gateway"]),
    secretPolicy: "any",
    store: { place: { kind: "volume", access: "direct" }, mayBeEmpty: false, most: { history: 0, replaced: 3 } },
    snapshotLimitBytes: 2560 * 1024 * 1024,
    triggers: { claimWaitMs: 120_000, perTrigger: 16, inAll: 256, leaseMs: 10_000 },
    buildNamespace: "tenancy-builds",
    keysNamespace: undefined,
    oidc: undefined,
    accountAudience: undefined,
    contextLimitBytes: 256 * 1024 * 1024,
    metricsListen: { hostname: "127.0.0.1", port: 9091 },
    stopDelayMs: 0,
    proxy: {
      listen: { hostname: "127.0.0.1", port: 8081 },
      domain: undefined,
      scheme: "https",
      trusted: [],
      api: undefined,
      waitMs: 60_000,
      connections: 20_000,
      tenantConnections: 500,
      responseTimeoutMs: 300_000,
      drainMs: 10_000,
      linkMaxSeconds: 2_592_000,
      memoryBytes: 268_435_456,
      logRate: 100,
    },
    tracing: undefined,
    audit: "stdout",
    sink: undefined,
    logLevel: "info",
  });
});

test("every variable is read", () => {
  assert.equal(
    loadConfig({
      TENANCY_LISTEN: "[::]:80",
      TENANCY_NAMESPACE: "other",
      TENANCY_API_KEY: "k3y!",
      TENANCY_WS_REQUIRE_KEY: "true",
      TENANCY_EDGE_ROLES: "gateway",
      TENANCY_SECRETS: "labelled",
      TENANCY_TRIGGER_CLAIM_WAIT: "5",
      TENANCY_TRIGGER_EVENTS_IN_FLIGHT: "2",
      TENANCY_GATEWAY_EVENTS_IN_FLIGHT: "3",
      TENANCY_LEASE_SECONDS: "4",
      TENANCY_BUILD_NAMESPACE: "builders",
      TENANCY_KEYS_NAMESPACE: "keys",
      TENANCY_SERVICE_ACCOUNTS: "on",
      TENANCY_SERVICE_ACCOUNT_AUDIENCE: "api",
      TENANCY_OIDC_ISSUER: "https://login.example.com/realm/",
      TENANCY_OIDC_AUDIENCE: "tenancy-api",
      TENANCY_OIDC_ROLES: "a=b c=admin, customers=tenant",
      TENANCY_OIDC_ROLE_CLAIM: "https://example.com/roles",
      TENANCY_OIDC_TENANT_CLAIM: "tenant",
      TENANCY_OIDC_CLIENT_ID: "dashboard",
      TENANCY_OIDC_CLIENT_SECRET: "s3cret text",
      TENANCY_OIDC_REDIRECT_URL: "https://tenancy.example.com/api/v1/session/oidc/callback",
      TENANCY_OIDC_SCOPES: "openid groups",
      TENANCY_OIDC_SESSION: "60",
      TENANCY_BUILD_CONTEXT_LIMIT: "1G",
      TENANCY_PROXY_LISTEN: "0.0.0.0:90",
      TENANCY_PROXY_DOMAIN: "apps.example.com:8443",
      TENANCY_PROXY_SCHEME: "http",
      TENANCY_PROXY_TRUSTED: "10.0.0.0/8, fd00::/8,192.0.2.7",
      TENANCY_PROXY_API: "tenancy-edge:8080",
      TENANCY_PROXY_WAIT: "1",
      TENANCY_PROXY_CONNECTIONS: "2",
      TENANCY_PROXY_TENANT_CONNECTIONS: "3",
      TENANCY_PROXY_RESPONSE_TIMEOUT: "4",
      TENANCY_PROXY_DRAIN: "5",
      TENANCY_PROXY_LINK_MAX: "60",
      TENANCY_PROXY_MEMORY: "1Gi",
      TENANCY_PROXY_LOG_RATE: "0",
      TENANCY_EDGE_METRICS_LISTEN: "0.0.0.0:9100",
      TENANCY_STOP_DELAY: "6",
      TENANCY_AUDIT: "/var/log/tenancy/audit.jsonl",
      TENANCY_LOG_LEVEL: "debug",
      PATH: "/bin",
    }),
    {
      listen: { hostname: "::", port: 80 },
      namespace: "other",
      apiKey: "k3y!",
      wsRequireKey: true,
      corsOrigins: new Set(),
      localOnly: false,
      roles: new Set(["gateway"]),
      secretPolicy: "labelled",
      store: { place: { kind: "volume", access: "direct" }, mayBeEmpty: false, most: { history: 0, replaced: 3 } },
      snapshotLimitBytes: 2560 * 1024 * 1024,
      triggers: { claimWaitMs: 5000, perTrigger: 2, inAll: 3, leaseMs: 4000 },
      buildNamespace: "builders",
      keysNamespace: "keys",
      oidc: {
        issuer: "https://login.example.com/realm/",
        audience: "tenancy-api",
        roles: [
          { group: "a=b c", role: "admin" },
          { group: "customers", role: "tenant" },
        ],
        roleClaim: "https://example.com/roles",
        tenantClaim: "tenant",
        login: {
          clientId: "dashboard",
          clientSecret: "s3cret text",
          redirectUrl: "https://tenancy.example.com/api/v1/session/oidc/callback",
          scopes: "openid groups",
          sessionMs: 60_000,
        },
      },
      accountAudience: "api",
      contextLimitBytes: 1e9,
      metricsListen: { hostname: "0.0.0.0", port: 9100 },
      stopDelayMs: 6000,
      proxy: {
        listen: { hostname: "0.0.0.0", port: 90 },
        domain: { name: "apps.example.com", port: 8443 },
        scheme: "http",
        trusted: [
          { address: "10.0.0.0", prefix: 8, family: "ipv4" },
          { address: "fd00::", prefix: 8, family: "ipv6" },
          { address: "192.0.2.7", prefix: 32, family: "ipv4" },
        ],
        api: { hostname: "tenancy-edge", port: 8080 },
        waitMs: 1000,
        connections: 2,
        tenantConnections: 3,
        responseTimeoutMs: 4000,
        drainMs: 5000,
        linkMaxSeconds: 60,
        memoryBytes: 1_073_741_824,
        logRate: 0,
      },
      tracing: undefined,
      audit: "/var/log/tenancy/audit.jsonl",
      sink: undefined,
      logLevel: "debug",
    },
  );
  assert.is(loadConfig({ TENANCY_EDGE_METRICS_LISTEN: "off" }).metricsListen, undefined);
  assert.is(loadConfig({ TENANCY_AUDIT: "off" }).audit, undefined);
  for (const wrong of ["stderr", "audit.jsonl", "/var/log/"])
    assert.throws(() => loadConfig({ TENANCY_AUDIT: wrong }), /must be off, stdout, or the absolute path of a file/);
  assert.equal(loadConfig({ TENANCY_EDGE_ROLES: "gateway, api" }).roles, new Set(["gateway", "api"]));
});

test("the front door is at localhost unless it is said where, over HTTPS unless it is there", () => {
  const door = (env: Record<string, string>) => loadConfig({ TENANCY_EDGE_ROLES: "proxy", ...env }).proxy;
  assert.equal(door({}).domain, { name: "localhost", port: undefined });
  assert.is(door({}).scheme, "http");
  assert.is(door({ TENANCY_PROXY_DOMAIN: "a.localhost" }).scheme, "http");
  assert.is(door({ TENANCY_PROXY_DOMAIN: "apps.example.com" }).scheme, "https");
  assert.equal(loadConfig({ TENANCY_PROXY_DOMAIN: "x.org" }).proxy.domain, { name: "x.org", port: undefined });
  for (const domain of [
    "Apps.example.com",
    ".example.com",
    "a..b",
    "10.0.0.1",
    "a.b:0",
    "a.b:70000",
    "a/b",
    "x".repeat(190),
  ])
    assert.match(problemsOf({ TENANCY_PROXY_DOMAIN: domain }), "TENANCY_PROXY_DOMAIN must be a domain");
  for (const networks of [
    "10.0.0.0/8;fd00::/8",
    "10.0.0.0/33",
    "10.0.0/8",
    "::/129",
    "10.0.0.0/8,",
    "all",
    "::ffff:10.0.0.0/104",
    "fe80::1%eth0",
  ])
    assert.match(problemsOf({ TENANCY_PROXY_TRUSTED: networks }), "TENANCY_PROXY_TRUSTED must be");
  for (const address of ["tenancy-edge", "http://tenancy-edge:8080", "tenancy-edge:0"])
    assert.match(problemsOf({ TENANCY_PROXY_API: address }), "TENANCY_PROXY_API must");
  const open = { TENANCY_EDGE_ROLES: "proxy", TENANCY_PROXY_LISTEN: "0.0.0.0:8081" };
  assert.match(problemsOf(open), "TENANCY_API_KEY is unset while TENANCY_PROXY_LISTEN (0.0.0.0:8081)");
  assert.ok(loadConfig({ ...open, TENANCY_EDGE_ROLES: "api" }));
  assert.ok(loadConfig({ ...open, TENANCY_API_KEY: "k3y!" }));
  assert.ok(loadConfig({ ...open, TENANCY_ALLOW_ANONYMOUS: "true" }));
});

test("without a key, only a loopback address or a plain yes is served", () => {
  for (const listen of [
    "127.0.0.1:80",
    "127.9.9.9:80",
    "[::1]:80",
    "[0:0:0:0:0:0:0:1]:80",
    "[::ffff:127.0.0.1]:80",
    "localhost:80",
    "LOCALHOST:80",
  ]) {
    assert.is(loadConfig({ TENANCY_LISTEN: listen }).apiKey, undefined, listen);
  }
  for (const listen of [
    "0.0.0.0:80",
    "[::]:80",
    "10.0.0.1:80",
    "[fe80::1]:80",
    "example.com:80",
    "localhost.example.com:80",
    "128.0.0.1:80",
    "126.255.255.255:80",
    "[::ffff:10.0.0.1]:80",
  ]) {
    const problem = problemsOf({ TENANCY_LISTEN: listen });
    assert.is(
      problem,
      `TENANCY_API_KEY is unset while TENANCY_LISTEN (${listen}) allows other machines; ` +
        "set TENANCY_API_KEY to a secret, or TENANCY_ALLOW_ANONYMOUS=true to serve everyone without a key",
    );
    assert.is(problemsOf({ TENANCY_LISTEN: listen, TENANCY_ALLOW_ANONYMOUS: "false" }), problem);
    assert.is(loadConfig({ TENANCY_LISTEN: listen, TENANCY_ALLOW_ANONYMOUS: "true" }).apiKey, undefined);
    assert.is(loadConfig({ TENANCY_LISTEN: listen, TENANCY_API_KEY: "k" }).apiKey, "k");
  }
});

test("a key that /ws is to ask for has to be there", () => {
  assert.match(
    problemsOf({ TENANCY_WS_REQUIRE_KEY: "true" }),
    "TENANCY_WS_REQUIRE_KEY requires a key, and none is set",
  );
  assert.match(problemsOf({ TENANCY_WS_REQUIRE_KEY: "1" }), "TENANCY_WS_REQUIRE_KEY must be true or false");
});

test("keys have a namespace of their own, beside the key for everything", () => {
  const set = { TENANCY_API_KEY: "k", TENANCY_KEYS_NAMESPACE: "keys" };
  assert.is(loadConfig(set).keysNamespace, "keys");
  assert.match(problemsOf({ TENANCY_KEYS_NAMESPACE: "keys" }), "without TENANCY_API_KEY no key is required");
  for (const name of ["TENANCY_NAMESPACE", "TENANCY_BUILD_NAMESPACE"])
    assert.match(problemsOf({ ...set, [name]: "keys" }), "TENANCY_KEYS_NAMESPACE is keys, where others may create");
  assert.match(problemsOf({ ...set, TENANCY_KEYS_NAMESPACE: "tenancy" }), "TENANCY_KEYS_NAMESPACE is tenancy");
  assert.match(problemsOf({ ...set, TENANCY_KEYS_NAMESPACE: "A" }), "must be the name of a namespace");
});

test("an issuer of tokens is reached by TLS, and what it takes to trust one is set with it", () => {
  const set = {
    TENANCY_API_KEY: "k",
    TENANCY_OIDC_ISSUER: "https://login.example.com",
    TENANCY_OIDC_AUDIENCE: "tenancy-api",
    TENANCY_OIDC_ROLES: "ops=admin",
  };
  assert.equal(loadConfig(set).oidc?.roleClaim, "groups");
  for (const issuer of ["http://127.0.0.1:9/a", "http://localhost", "http://[::1]:9"])
    assert.is(loadConfig({ ...set, TENANCY_OIDC_ISSUER: issuer }).oidc?.issuer, issuer);
  for (const issuer of [
    "http://login.example.com",
    "http://127.0.0.1.example.com",
    "login.example.com",
    "https://a:b@login.example.com",
    "https://login.example.com?a",
    "https://login.example.com#a",
    "file:///etc",
  ])
    assert.match(
      problemsOf({ ...set, TENANCY_OIDC_ISSUER: issuer }),
      "TENANCY_OIDC_ISSUER must be the issuer's https URL",
    );
  for (const text of ["ops", "ops=root", "=admin", "ops=admin,", "ops=ADMIN"])
    assert.match(problemsOf({ ...set, TENANCY_OIDC_ROLES: text }), "TENANCY_OIDC_ROLES must be group=role");
  assert.match(problemsOf({ ...set, TENANCY_OIDC_ROLES: "a=admin,a=reader" }), "must name each group once");
  assert.match(problemsOf({ ...set, TENANCY_OIDC_ROLES: "a=tenant" }), "TENANCY_OIDC_TENANT_CLAIM is unset");
  const client = {
    ...set,
    TENANCY_OIDC_CLIENT_ID: "dashboard",
    TENANCY_OIDC_REDIRECT_URL: "https://edge.example.com/api/v1/session/oidc/callback",
  };
  const { TENANCY_OIDC_AUDIENCE: _, ...people } = client;
  assert.equal(loadConfig(people).oidc?.login, {
    clientId: "dashboard",
    clientSecret: undefined,
    redirectUrl: client.TENANCY_OIDC_REDIRECT_URL,
    scopes: "openid",
    sessionMs: 14_400_000,
  });
  for (const url of ["https://edge.example.com/", "http://edge.example.com/api/v1/session/oidc/callback", "/callback"])
    assert.match(problemsOf({ ...client, TENANCY_OIDC_REDIRECT_URL: url }), "TENANCY_OIDC_REDIRECT_URL must be");
  for (const scopes of ["profile", "openidx", "openid  groups"])
    assert.match(problemsOf({ ...client, TENANCY_OIDC_SCOPES: scopes }), "TENANCY_OIDC_SCOPES must be");
  assert.match(problemsOf({ ...set, TENANCY_OIDC_CLIENT_SECRET: "a" }), "but not TENANCY_OIDC_CLIENT_ID");
  assert.not.match(problemsOf({ ...client, TENANCY_OIDC_CLIENT_SECRET: "s3cret\n" }), "s3cret");
  const { TENANCY_OIDC_REDIRECT_URL: __, ...nowhere } = client;
  assert.match(problemsOf(nowhere), "but not TENANCY_OIDC_REDIRECT_URL");
  for (const name of ["TENANCY_API_KEY", "TENANCY_OIDC_AUDIENCE", "TENANCY_OIDC_ROLES", "TENANCY_OIDC_ISSUER"])
    assert.match(problemsOf(Object.fromEntries(Object.entries(set).filter(([one]) => one !== name))), name);
});

test("tokens of ServiceAccounts are for an audience of this service, beside the key for everything", () => {
  const set = { TENANCY_API_KEY: "k", TENANCY_SERVICE_ACCOUNTS: "on" };
  assert.is(loadConfig(set).accountAudience, "tenancy.dev");
  assert.is(loadConfig({ ...set, TENANCY_SERVICE_ACCOUNTS: "off" }).accountAudience, undefined);
  assert.match(problemsOf({ TENANCY_SERVICE_ACCOUNTS: "on" }), "without TENANCY_API_KEY");
  assert.match(problemsOf({ ...set, TENANCY_SERVICE_ACCOUNTS: "yes" }), "must be on or off");
  assert.match(problemsOf({ ...set, TENANCY_SERVICE_ACCOUNT_AUDIENCE: "a b" }), "without spaces");
});

test("an empty variable is a mistake, the key above all", () => {
  assert.is(problemsOf({ TENANCY_API_KEY: "" }), "TENANCY_API_KEY is empty: give it a value or unset it");
  assert.is(
    problemsOf({ TENANCY_API_KEY: "", TENANCY_ALLOW_ANONYMOUS: "true" }),
    "TENANCY_API_KEY is empty: give it a value or unset it",
  );
  assert.match(problemsOf({ TENANCY_LISTEN: "" }), "TENANCY_LISTEN is empty");
});

test("a bad value is refused with what it must be, all at once", () => {
  for (const listen of [
    "8080",
    ":8080",
    "127.0.0.1",
    "127.0.0.1:",
    "::1:8080",
    "[::1]",
    "[::g]:1",
    "a b:1",
    "1.2.3:1",
    "999.1.1.1:1",
    "x:65536",
    "x:-1",
    "http://x:1",
  ]) {
    assert.is(
      problemsOf({ TENANCY_LISTEN: listen }),
      `TENANCY_LISTEN must be host:port, such as 127.0.0.1:8080 or [::1]:8080, not "${listen}"`,
    );
  }
  assert.equal(
    problemsOf({
      TENANCY_NAMESPACE: "Tenancy",
      TENANCY_ALLOW_ANONYMOUS: "yes",
      TENANCY_EDGE_ROLES: "api,operator",
      TENANCY_TRIGGER_CLAIM_WAIT: "2m",
      TENANCY_TRIGGER_EVENTS_IN_FLIGHT: "0",
      TENANCY_GATEWAY_EVENTS_IN_FLIGHT: "1e3",
      TENANCY_LEASE_SECONDS: "601",
      TENANCY_EDGE_METRICS_LISTEN: "on",
      TENANCY_STOP_DELAY: "301",
      TENANCY_LOG_LEVEL: "verbose",
    }).split("\n"),
    [
      'TENANCY_NAMESPACE must be the name of a namespace: at most 63 lower-case letters, digits and dashes, not "Tenancy"',
      'TENANCY_ALLOW_ANONYMOUS must be true or false, not "yes"',
      'TENANCY_EDGE_ROLES must be a list of api, gateway and proxy, separated by commas, not "api,operator"',
      'TENANCY_TRIGGER_CLAIM_WAIT must be a whole number from 1 to 3600, not "2m"',
      'TENANCY_TRIGGER_EVENTS_IN_FLIGHT must be a whole number from 1 to 10000, not "0"',
      'TENANCY_GATEWAY_EVENTS_IN_FLIGHT must be a whole number from 1 to 100000, not "1e3"',
      'TENANCY_LEASE_SECONDS must be a whole number from 2 to 600, not "601"',
      'TENANCY_EDGE_METRICS_LISTEN must be host:port, such as 127.0.0.1:9090, or off, not "on"',
      'TENANCY_STOP_DELAY must be a whole number from 0 to 300, not "301"',
      'TENANCY_LOG_LEVEL must be debug, info, warn or error, not "verbose"',
    ],
  );
});

test("a key that no header can carry is refused, and not shown", () => {
  for (const key of ["with space", "schlüssel", "line\nbreak", "tab\t", " "]) {
    assert.is(
      problemsOf({ TENANCY_API_KEY: key }),
      "TENANCY_API_KEY must be printable ASCII characters without spaces",
    );
  }
});

test("a key that can be guessed is warned of, and not shown", () => {
  for (const [apiKey, isWeak] of [
    [undefined, false],
    ["hunter2", true],
    ["x".repeat(19), true],
    ["x".repeat(20), false],
  ] as const) {
    const warning = keyWarning({ apiKey });
    assert.is(warning !== undefined, isWeak, apiKey);
    assert.not.ok(apiKey !== undefined && warning?.includes(apiKey));
  }
});

test.run();
