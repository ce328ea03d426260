import { Agent, type AgentOptions } from "node:http";
import { Agent as SecureAgent, type AgentOptions as SecureAgentOptions } from "node:https";
import { createSecureContext } from "node:tls";
import type { ClusterConfig, Credential } from "./config/cluster-config.ts";

export interface Agents {
  readonly calls: Agent;
  /**
   * Separate, since admission webhooks can delay each creation by seconds, and a pool's refill sends many: a claim of a
   * warm pod must not wait for them.
   */
  readonly podCreates: Agent;
  /**
   * Separate, so that a Lease is renewed while unanswered calls use all other connections. There are as many as Leases.
   */
  readonly leases: Agent;
  /** Separate, so that watches, which last for minutes, never take a connection from a call. */
  readonly watches: Agent;
}

export interface Connections {
  /** The agents with connections for this credential. */
  agents(credential: Credential): Agents;
  /** Closes the idle connections. */
  dropIdle(): void;
  close(): void;
}

/** Enough that a cold claim's pod does not wait behind refills, about forty at the same time. */
const MAX_POD_CREATES = 64;

/** The API server closes connections after 90 s without use: a write must not coincide with that. */
const idleMs = 45_000;

/**
 * Keep-alive connections to one server. A changed certificate gets new ones; requests on the old ones end there.
 */
export function createConnections(options: {
  config: ClusterConfig;
  secure: boolean;
  maxSockets: number;
}): Connections {
  const { config, secure, maxSockets } = options;
  let current: { credential: Credential; agents: Agents } | undefined;

  function create(tls: SecureAgentOptions, sockets: number): Agent {
    const common: AgentOptions = {
      keepAlive: true,
      maxSockets: sockets,
      scheduling: "lifo",
      noDelay: true,
      timeout: idleMs,
    };
    const agent = secure ? new SecureAgent({ ...common, ...tls }) : new Agent(common);
    // An agent indexes connections by all their options, including certificates, and hashing these takes 15 % of the
    // time of a call. All connections of this agent have the same options.
    agent.getName = () => config.server;
    return agent;
  }

  function all(): Agent[] {
    return current === undefined ? [] : Object.values(current.agents);
  }

  return {
    agents(credential) {
      if (current?.credential === credential) return current.agents;
      if (current === undefined || !sameCertificates(current.credential, credential)) {
        const tls = secure ? tlsOptions(config, credential) : {};
        for (const agent of all()) retire(agent);
        const agents = {
          calls: create(tls, maxSockets),
          podCreates: create(tls, MAX_POD_CREATES),
          leases: create(tls, Number.POSITIVE_INFINITY),
          watches: create(tls, Number.POSITIVE_INFINITY),
        };
        current = { credential, agents };
      } else {
        current = { credential, agents: current.agents };
      }
      return current.agents;
    },
    dropIdle() {
      for (const agent of all()) dropFreeSockets(agent);
    },
    close() {
      for (const agent of all()) agent.destroy();
    },
  };
}

/** The TLS options of a connection to the API server. */
export function tlsOptions(config: ClusterConfig, credential: Credential): SecureAgentOptions {
  const certificates = {
    ...(credential.ca !== undefined && { ca: credential.ca }),
    ...(credential.certificate !== undefined && { cert: credential.certificate }),
    ...(credential.key !== undefined && { key: credential.key }),
  };
  return {
    rejectUnauthorized: config.insecureSkipTlsVerify !== true,
    ...(config.tlsServerName !== undefined && { servername: config.tlsServerName }),
    // For runtimes that do not read the context.
    ...certificates,
    // Without it, Node parses the certificates for each connection, which blocks its only thread for 1.1 ms.
    secureContext: createSecureContext(certificates),
  };
}

function sameCertificates(a: Credential, b: Credential): boolean {
  return a.ca === b.ca && a.certificate === b.certificate && a.key === b.key;
}

function retire(agent: Agent): void {
  agent.maxFreeSockets = 0;
  dropFreeSockets(agent);
}

function dropFreeSockets(agent: Agent): void {
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}
