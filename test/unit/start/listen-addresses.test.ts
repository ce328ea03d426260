import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { requireFreeAddresses } from "../../../scripts/start/listen-addresses.ts";

const test = suite("requireFreeAddresses");
const folder = mkdtempSync(join(tmpdir(), "tenancy-addresses-"));
const servers: Server[] = [];
test.after(() => {
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true });
});

async function listen(host: string): Promise<number> {
  const server = createServer();
  servers.push(server);
  server.listen(0, host);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function refusal(env: Record<string, string>): Promise<string> {
  try {
    await requireFreeAddresses(env, { again: "npm start -- --name other" });
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

async function free(): Promise<Record<string, string>> {
  const [api, probes, operator] = [await freePort(), await freePort(), await freePort()];
  return {
    TENANCY_LISTEN: `127.0.0.1:${api}`,
    TENANCY_EDGE_METRICS_LISTEN: `127.0.0.1:${probes}`,
    TENANCY_OPERATOR_LISTEN: `127.0.0.1:${operator}`,
  };
}

test("free addresses, those that are off and those that take any port are let pass", async () => {
  assert.is(await refusal(await free()), "");
  assert.is(
    await refusal({
      TENANCY_LISTEN: "localhost:0",
      TENANCY_EDGE_METRICS_LISTEN: "off",
      TENANCY_OPERATOR_LISTEN: "127.0.0.1:0",
    }),
    "",
  );
});

test("every address that is taken is named, with its variable, who has it, and one that is free", async () => {
  const [api, operator] = [await listen("127.0.0.1"), await listen("0.0.0.0")];
  const env = {
    ...(await free()),
    TENANCY_LISTEN: `127.0.0.1:${api}`,
    TENANCY_OPERATOR_LISTEN: `127.0.0.1:${operator}`,
  };
  const said = await refusal(env);
  const by = `by process ${process.pid}: `;
  assert.ok(said.includes(`\n  127.0.0.1:${api} (TENANCY_LISTEN) ${by}`), said);
  assert.ok(said.includes(`\n  127.0.0.1:${operator} (TENANCY_OPERATOR_LISTEN) ${by}`), said);
  assert.not.match(said, /METRICS/);
  const [, beside = ""] = /\n {2}(TENANCY_\S+ TENANCY_\S+) npm start -- --name other$/.exec(said) ?? [];
  const other = Object.fromEntries(beside.split(" ").map((pair) => pair.split("=")));
  assert.is(await refusal({ ...env, ...other }), "", said);
});

test("a name is taken where any of its addresses is", async () => {
  const port = await listen("127.0.0.1");
  assert.match(
    await refusal({ ...(await free()), TENANCY_LISTEN: `localhost:${port}` }),
    /localhost:\d+ \(TENANCY_LISTEN\)/,
  );
});

test("the npm start that a listening process belongs to is the one to stop", async () => {
  mkdirSync(join(folder, "scripts"));
  const edge = `require("net").createServer().listen(0, "127.0.0.1", function () { console.log(this.address().port); });`;
  writeFileSync(join(folder, "edge.cjs"), edge);
  const spawns = `import { spawn } from "node:child_process"; spawn(process.execPath, ["edge.cjs"], { stdio: "inherit" });
    process.on("SIGTERM", () => undefined); setInterval(() => undefined, 1000);`;
  writeFileSync(join(folder, "scripts/start.ts"), spawns);
  const child = spawn(
    "setpriv",
    ["--pdeathsig", "KILL", "--", process.execPath, "--import", import.meta.resolve("tsx"), "scripts/start.ts"],
    { cwd: folder, stdio: ["ignore", "pipe", "inherit"], detached: true },
  );
  try {
    const port = Number(String((await once(child.stdout, "data"))[0]));
    const said = await refusal({ ...(await free()), TENANCY_LISTEN: `127.0.0.1:${port}` });
    assert.match(said, /by process \d+: \S+ edge\.cjs\n/);
    assert.ok(said.includes(`Stop the npm start that has them: Ctrl-C in its terminal, or kill ${child.pid};`), said);
  } finally {
    process.kill(-(child.pid ?? 0), "SIGKILL");
  }
});

test("an address that is not this machine's, and a value that makes no sense, are said before anything is started", async () => {
  assert.match(
    await refusal({ ...(await free()), TENANCY_EDGE_METRICS_LISTEN: "192.0.2.1:9091" }),
    /Cannot listen on 192\.0\.2\.1:9091: .*EADDRNOTAVAIL/,
  );
  assert.match(await refusal({ ...(await free()), TENANCY_LISTEN: "eight" }), /TENANCY_LISTEN.*host:port.*eight/);
});

test.run();
