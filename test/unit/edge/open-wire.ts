import { connect, type Socket } from "node:net";

/** A raw connection to a server, to see exactly what goes over the wire. */
export interface Wire {
  readonly socket: Socket;
  /** Everything received so far. */
  received(): string;
  /** Resolves once the text has been received; rejects when the connection closes without it. */
  seen(text: string): Promise<void>;
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>;
}

/** Connects to a server's URL and writes a text. */
export function openWire(url: string, text = ""): Wire {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname.replace(/^\[|\]$/g, ""));
  let received = "";
  let isClosed = false;
  let onChange: (() => void)[] = [];
  const change = (): void => {
    const waiting = onChange;
    onChange = [];
    for (const resolve of waiting) resolve();
  };
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    change();
  });
  // What went wrong shows in what was received.
  socket.on("error", change);
  const closed = new Promise<void>((resolve) => {
    socket.on("close", () => {
      isClosed = true;
      change();
      resolve();
    });
  });
  if (text !== "") socket.write(text);
  return {
    socket,
    received: () => received,
    closed,
    async seen(wanted) {
      while (!received.includes(wanted)) {
        if (isClosed) throw new Error(`closed without ${JSON.stringify(wanted)}: ${JSON.stringify(received)}`);
        await new Promise<void>((resolve) => onChange.push(resolve));
      }
    },
  };
}
