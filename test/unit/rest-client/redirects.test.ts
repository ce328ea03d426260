// @runtimes bun node deno
// What the client and the command line send to another address that the API, or a proxy before it, names: nothing.
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { longFetch } from "../../../edge/cli/long-fetch.ts";
import { ApiError, type Client, createClient } from "../../../edge/client/index.ts";
import { errorOf } from "../../error-of.ts";

const test = suite("createClient: redirects");
const servers: Server[] = [];
/** Requests that the other address got. */
const got: string[] = [];
let status = 307;
let other: string;
let url: string;

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  // A request for a WebSocket is answered as others are.
  server.on("upgrade", (request, socket) => {
    socket.on("error", () => undefined);
    if (servers.indexOf(server) === 0) got.push(`${request.method} ${request.url}`);
    else
      socket.write(`HTTP/1.1 307 Temporary Redirect\r\nLocation: ${other}${request.url}\r\nContent-Length: 0\r\n\r\n`);
    socket.end();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.before(async () => {
  other = await listen((request, response) => {
    got.push(`${request.method} ${request.url}`);
    response.setHeader("content-type", "application/json").end("{}");
  });
  url = await listen((request, response) => {
    request.resume();
    response.writeHead(status, { location: `${other}${request.url}` }).end();
  });
});
test.after(() => {
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
});

const calls: Record<string, (client: Client) => Promise<unknown>> = {
  read: (client) => client.call("GET /api/v1/health"),
  "body with secrets": (client) => client.claim("ann", "app", { secrets: { TOKEN: "secret" } }),
  stream: (client) => client.files.write("inst-a", "/tmp/a", new Blob(["text"]).stream()),
  "followed process": (client) => client.run("inst-a", ["true"]),
  WebSocket: (client) => client.processes.attach("inst-a", 7),
};

for (const [name, fetch] of [
  ["client", undefined],
  ["command line", longFetch],
] as const)
  test(`${name}: nothing goes to the address of a redirect, and the error names it`, async () => {
    const client = createClient({ url, key: "the-key", ...(fetch && { fetch }) });
    for (const one of [301, 302, 303, 307, 308]) {
      status = one;
      for (const [what, call] of Object.entries(calls)) {
        // A WebSocket is tried again after a pause.
        if (what === "WebSocket" && one !== 307) continue;
        const error = (await errorOf(call(client))) as ApiError;
        assert.instance(error, ApiError, what);
        assert.is(error.status, one, `${what}: ${error.message}`);
        assert.is(
          error.message,
          `the API redirects to ${other}, which is not followed; use the API's own address as url`,
        );
      }
    }
    assert.equal(got, []);
  });

test.run();
