import { Agent, type AgentOptions } from "node:http";
import { Agent as SecureAgent, type AgentOptions as SecureAgentOptions } from "node:https";
import { createSecureContext } from "node:tls";
import type { ClusterConfig, Credential } from "./config/cluster-config.ts";

export interface Agents {
  readonly calls: Agent;
  /**
   * Apart, since admission webhooks can make each take seconds, and a pool's refill sends many: a claim of a warm pod
   * waits for none.
   */
  readonly podCreates: Agent;
  /**
   * Apart, so that a Lease is renewed while calls that nothing answers hold all of theirs; as many as there are Leases.
   */
  readonly leases: Agent;
  /** Apart, so that watches, which hold theirs for minutes, never take a connection from a call. */
  readonly watches: Agent;
}

export interface Connections {
  /** The agents whose connections are made with this credential. */
  agents(credential: Credential): Agents;
  /** Closes the connections that no request is on. */
  dropIdle(): void;
  close(): void;
}

/** So many that a cold claim's pod is not created behind those of refills, some forty at once. */
const MAX_POD_CREATES = 64;

/** The API server drops connections that were idle for 90 s: a write must never meet that moment. */
const idleMs = 45_000;

/**
 * Keep-alive connections to one server; a changed certificate gets new ones, and what is under way on the old ones ends
 * there.
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
    // An agent files connections under all that they were made with, certificates and all: 15 % of the time that a call
    // takes here goes into hashing them. All of this one's are alike.
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

/** What a connection to the API server is made with. */
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
    // Without it Node reads the certificates again for every connection, which takes 1.1 ms of its only thread.
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
