/** What the upstream program is told when it starts. */
export interface UpstreamSettings {
  /** By server name; `*` is shown for names that are not there. */
  certificates: Record<string, { certificate: string; key: string }>;
  records: Record<string, string[]>;
  /** Addresses of DNS servers. */
  resolvers: string[];
  /** Address of the HTTPS and HTTP servers; `::` for all. */
  host: string;
}

/** How an upstream server saw a request. */
export interface SeenRequest {
  /** Of the server: the address that was connected to. */
  address: string;
  serverName: string;
  httpVersion: string;
  headers: Record<string, string | string[] | undefined>;
  /** Of the request's body. */
  bytes: number;
  sha256: string;
}

export interface HttpCall {
  kind: "http";
  version: 1 | 2;
  url: string;
  method?: string;
  headers?: Record<string, string>;
  /** Sends a body of that many random bytes. */
  uploadBytes?: number;
}

/** A call by hand over TLS: what is sent as the server name need not be what is connected to. */
export interface TlsCall {
  kind: "tls";
  host: string;
  /** Undefined: none is sent. */
  serverName?: string;
  /** Sent after the handshake. */
  text?: string;
  /** Sends the first bytes one at a time. */
  isSlow?: boolean;
}

export interface PlainCall {
  kind: "plain";
  host: string;
  port: number;
  text: string;
}

export interface DatagramCall {
  kind: "datagram";
  host: string;
  port: number;
  /** How long an answer is waited for. */
  answerMs: number;
}

export interface WebSocketCall {
  kind: "websocket";
  url: string;
  messages: string[];
}

/** Opens a WebSocket and leaves it open; resolves when it is. */
export interface HoldCall {
  kind: "hold";
  url: string;
}

export interface StreamCall {
  kind: "stream";
  version: 1 | 2;
  url: string;
  /** Each piece waits for the word that the one before has arrived, which the test gives instead of the client. */
  isHeld?: boolean;
}

export type Call = HttpCall | TlsCall | PlainCall | DatagramCall | WebSocketCall | HoldCall | StreamCall;

export interface HttpAnswer {
  status: number;
  body: string;
  /** Of what was sent. */
  sha256: string;
}

/** `error` is the code of a failure, else its message. */
export type Answer<T = unknown> = { error: string } | { value: T };
