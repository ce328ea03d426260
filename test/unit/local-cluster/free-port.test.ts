import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";

const test = suite("free port");

const PORTS = 300;

test("no two calls get the same port, in whichever process", async () => {
  const module = new URL("../../../scripts/cluster/process/free-port.ts", import.meta.url).href;
  const program = `
    import { freePort } from ${JSON.stringify(module)};
    const ports = [];
    for (let count = 0; count < ${PORTS}; count += 1) ports.push(await freePort());
    console.log(JSON.stringify(ports));`;
  const own = new Set<number>();
  for (let count = 0; count < PORTS; count += 1) own.add(await freePort());
  assert.is(own.size, PORTS);
  // That it ends shows that the ports it has do not keep it.
  const args = ["--import", "tsx", "--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 });
  const others = JSON.parse(stdout) as number[];
  assert.is(new Set(others).size, PORTS);
  assert.equal(
    others.filter((port) => own.has(port)),
    [],
  );
});

test.run();
