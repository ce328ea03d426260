// @runtimes bun node
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../../eventually.ts";
import { closeAfter, closeAll, startProxy } from "./start-proxy.ts";

const test = suite("the proxy's memory");
test.after.each(closeAll);

const MIB = 1024 * 1024;

test("half a gigabyte to a pod and back takes no memory that grows with it, also while its reader stands still", async () => {
  const bytes = 512 * MIB;
  const piece = Buffer.alloc(64 * 1024, "x");
  let mostRss = 0;
  const count = (chunk: Buffer): number => {
    mostRss = Math.max(mostRss, process.memoryUsage.rss());
    return chunk.length;
  };

  // The pod and the visitor are in this process too, and keep nothing.
  const pod = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n`);
      socket.on("data", (chunk) => {
        count(chunk);
        if (!socket.write(chunk)) socket.pause();
      });
      socket.on("drain", () => socket.resume());
    });
  });
  pod.listen(0, "127.0.0.1");
  await once(pod, "listening");
  closeAfter(async () => void pod.close());
  const { port } = pod.address() as AddressInfo;
  const proxy = await startProxy({ pod: { uid: "pod-1", host: "127.0.0.1", port, confirm: async () => true } });

  const visitor = connect(proxy.port, "127.0.0.1");
  visitor.on("error", () => visitor.destroy());
  closeAfter(async () => void visitor.destroy());
  visitor.write(`PUT /p HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`);
  await once(visitor, "data");
  const before = process.memoryUsage.rss();
  let sent = 0;
  let returned = 0;
  visitor.on("data", (chunk) => {
    returned += count(chunk);
  });
  visitor.pause();
  const send = (): void => {
    for (let more = true; more && sent < bytes; sent += piece.length) more = visitor.write(piece);
  };
  visitor.on("drain", send);
  send();
  for (let last = -1; last !== sent; ) {
    last = sent;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  assert.is(visitor.destroyed, false, "not even the bound of all connections is reached");
  assert.ok(sent < bytes, "what nobody reads is left to who sends it");
  visitor.resume();
  await eventually(() => returned === bytes);
  const grownMib = Math.round((mostRss - before) / MIB);
  assert.ok(grownMib < 128, `${grownMib} MiB more`);
});

test.run();
