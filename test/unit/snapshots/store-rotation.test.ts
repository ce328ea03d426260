// @runtimes node
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection } from "../../../crds/snapshots/store-connection.ts";
import { createDirectEndpoint } from "../../../crds/snapshots/store-endpoint.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { eventually } from "../../eventually.ts";
import { MemoryApi } from "../memory-api.ts";
import { runningHelper, storeSecret } from "./helper-objects.ts";
import { call, key } from "./store-contract.ts";

const repository = join(import.meta.dirname, "..", "..", "..");
const test = suite<{ folder: string }>("the snapshots server when its Secret is renewed");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-rotation-"));
  for (const name of ["volume", "secret"]) mkdirSync(join(context.folder, name));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, maxRetries: 20 }));

type Data = Record<string, string>;

function generation(token: string): Data {
  const [from, until] = [Date.now() - 60_000, Date.now() + 3_600_000].map((at) => new Date(at)) as [Date, Date];
  const { certificate, key: own } = makeSelfSigned({ name: SNAPSHOTS_NAME, from, until });
  return { "tls.crt": certificate, "tls.key": own, token };
}

/** As the kubelet does: the files of one state are in a folder of their own, which one rename puts in place. */
function show(folder: string, data: Data): void {
  const state = mkdtempSync(join(folder, "..state-"));
  for (const [name, text] of Object.entries(data)) writeFileSync(join(state, name), text);
  symlinkSync(state, join(folder, "..data_tmp"));
  renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
  for (const name of Object.keys(data)) {
    try {
      symlinkSync(join("..data", name), join(folder, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

/** A client that sees the Secret so. */
function clientOf(port: number, data: Data): SnapshotStore {
  const api = new MemoryApi();
  api.add(pods, runningHelper("127.0.0.1"));
  api.add(secrets, storeSecret(data));
  return createStoreClient({
    connection: createStoreConnection({ endpoint: createDirectEndpoint({ client: api.client, namespace: "n", port }) }),
  });
}

test("whoever has seen the new one or not yet is let in meanwhile, and later the new one alone", async ({ folder }) => {
  const secret = join(folder, "secret");
  const [first, second] = [generation("one"), generation("two")];
  const former = { "tls.crt.before": first["tls.crt"] ?? "", "token.before": "one" };
  // The first is of a version that knew no token for names.
  const between = { ...second, ...former, "names-token": "for names" };
  show(secret, first);
  const bundle = join(folder, "server.mjs");
  const entry = join(repository, "operator/snapshots/helper/server-main.ts");
  await runCommand(join(repository, "node_modules/.bin/bun"), ["build", "--target=node", entry, "--outfile", bundle]);
  const env = { TENANCY_SNAPSHOT_ROOT: join(folder, "volume"), TENANCY_SNAPSHOT_SECRETS: secret };
  const server = spawn(process.execPath, [bundle], {
    env: { ...env, TENANCY_SNAPSHOT_LISTEN: "127.0.0.1:0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    let said = "";
    server.stdout.on("data", (chunk) => (said += chunk));
    await eventually(() => /"port":\d+[,}]/.test(said));
    const port = Number(/"port":(\d+)/.exec(said)?.[1]);
    const looks = async (data: Data) => (await clientOf(port, data).look(key, call)).state === "unmarked";
    const isRefused = async (data: Data) =>
      await looks(data).then(
        () => false,
        () => true,
      );
    assert.ok(await looks(first));
    for (const token of ["for names", ""]) assert.ok(await isRefused({ ...first, token }));
    // The client is first to see it.
    assert.ok(await looks(between));
    assert.ok(await isRefused(second));
    show(secret, between);
    await eventually(async () => !(await isRefused(second)));
    assert.ok(await looks(between));
    assert.equal(await clientOf(port, { ...second, token: "for names" }).names({ limit: 1 }, call), {
      items: [],
      next: undefined,
    });
    show(secret, second);
    await eventually(async () => await isRefused({ ...second, token: "one" }));
    assert.ok(await looks(second));
    assert.ok(await isRefused(first));
  } finally {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGKILL");
    await ended;
  }
});

test.run();
