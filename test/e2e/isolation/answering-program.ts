// Servers that say who they are. Its argument: AnsweringSettings as JSON. Prints "ready" when all of them listen.
import { createSocket } from "node:dgram";
import { createServer as createHttpsServer } from "node:https";
import { createServer } from "node:net";
import { dnsAnswer } from "../egress/dns-answer.ts";

export interface AnsweringSettings {
  servers: readonly AnsweringServer[];
  /** Of the servers of names. */
  records: Readonly<Record<string, readonly string[]>>;
  /** Of the servers of HTTPS, for whatever name. */
  certificate: string;
  key: string;
}

/** `tcp` says who it is to whoever connects, `https` to every request, `tftp` to every datagram. */
export interface AnsweringServer {
  kind: "tcp" | "https" | "tftp" | "names";
  address: string;
  port: number;
  says: string;
}

const settings = JSON.parse(process.argv[2] ?? "") as AnsweringSettings;
const records = new Map(Object.entries(settings.records));
await Promise.all(settings.servers.map(serve));
console.log("ready");

function serve({ kind, address, port, says }: AnsweringServer): Promise<void> {
  switch (kind) {
    case "tcp":
      return new Promise((resolve) => createServer((socket) => socket.end(`${says}\n`)).listen(port, address, resolve));
    case "https": {
      const { certificate: cert, key } = settings;
      const server = createHttpsServer({ cert, key }, (_, response) => response.end(`${says}\n`));
      return new Promise((resolve) => server.listen(port, address, resolve));
    }
    case "tftp":
      // The first and last block of a file (RFC 1350, section 5).
      return serveDatagrams(address, port, () => Buffer.from(`\0\u0003\0\u0001${says}\n`));
    case "names":
      return serveDatagrams(address, port, (query) => dnsAnswer(query, records));
    default: {
      const never: never = kind;
      throw new Error(`Cannot serve ${never}`);
    }
  }
}

function serveDatagrams(address: string, port: number, answer: (query: Buffer) => Buffer): Promise<void> {
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => socket.send(answer(query), from.port, from.address));
  return new Promise((resolve) => socket.bind(port, address, resolve));
}
