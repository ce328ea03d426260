import { spawn } from "node:child_process";
import { on } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream";
import type { Browser } from "playwright-core";
import { launchBrowser } from "./browser.ts";

const LIMIT_MS = 30_000;
/** Listens at each port in the namespace, and hands the socket to the test, which is in another namespace. */
const HOLDER = `
require("node:child_process").execFileSync("ip", ["link", "set", "lo", "up"]);
for (const port of process.argv.slice(1)) {
  const server = require("node:net").createServer();
  server.listen(Number(port), "127.0.0.1", () => process.send(port, server, () => server.close()));
}
process.on("disconnect", () => process.exit());
`;

/**
 * Launches the browser in a network namespace of its own, where it reaches these ports of this machine's 127.0.0.1
 * and nothing else. Chromium ends the requests of every page with ERR_NETWORK_CHANGED when its machine gets or loses
 * a network interface, and each pod of a local cluster has one. Needs root, as the cluster does.
 */
export async function launchBrowserApart(ports: readonly number[]): Promise<Browser> {
  const holder = spawn("unshare", ["--net", process.execPath, "-e", HOLDER, ...ports.map(String)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const folder = mkdtempSync(join(tmpdir(), "tenancy-browser-"));
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const end = () => {
    for (const socket of sockets) socket.destroy();
    for (const server of servers) server.close();
    holder.kill();
  };
  try {
    const messages = on(holder, "message", { signal: AbortSignal.timeout(LIMIT_MS) });
    while (servers.length < ports.length) {
      const [port, server] = (await messages.next()).value as [string, Server];
      servers.push(server);
      server.on("connection", (inside) => {
        const outside = connect(Number(port), "127.0.0.1");
        for (const socket of [inside, outside]) sockets.add(socket.once("close", () => sockets.delete(socket)));
        pipeline(inside, outside, () => inside.destroy());
        pipeline(outside, inside, () => outside.destroy());
      });
    }
    const program = join(folder, "chromium");
    const browser = await launchBrowser((chromium) => {
      writeFileSync(program, `#!/bin/sh\nexec nsenter --net=/proc/${holder.pid}/ns/net '${chromium}' "$@"\n`);
      chmodSync(program, 0o755);
      return program;
    });
    browser.once("disconnected", end);
    return browser;
  } catch (error) {
    end();
    throw error;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
