import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { annotation } from "../../../crds/labels.ts";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { type ObjectServer, startObjectServer } from "../../../scripts/cluster/objects/object-server.ts";
import { bundleOperator } from "../../../scripts/start/bundle-programs.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type ObjectFaultProxy, startObjectFaults } from "./object-faults.ts";

interface Context {
  folder: string;
  server: ObjectServer;
  faults: ObjectFaultProxy;
  tenancy: Tenancy;
}

const test = suite<Context>("the start of an operator with object storage");
const bundle = bundleOperator(join(import.meta.dirname, "../../.."));

test.before(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-objects-"));
  context.server = await startObjectServer({ folder: context.folder, log: console.log });
  context.faults = await startObjectFaults(context.server.endpoint);
  context.tenancy = await startTenancy("s3-operator", { nodes: false });
  const { endpoint, region, accessKeyId, secretAccessKey } = context.server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket: "bucket", isPathStyle: true, credentials });
  assert.is((await client.send({ method: "PUT", signal: AbortSignal.timeout(60_000) })).status, 200);
  client.close();
});
test.after(async ({ folder, server, faults, tenancy }) => {
  await tenancy.stop();
  await faults.close();
  await server.stop();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});
test.before.each(({ faults }) => {
  faults.decide = () => undefined;
});

/** Starts one, and ends it when it has started, or has said that it cannot. */
async function start(
  { server, faults, tenancy }: Context,
  env: Record<string, string>,
): Promise<{ hasStarted: boolean; says: string }> {
  const program = await bundle;
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program], {
      env: {
        ...{ PATH: process.env.PATH ?? "", KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_NAMESPACE: NAMESPACE },
        ...{ TENANCY_OPERATOR_LISTEN: "off", TENANCY_SNAPSHOT_STORE: "s3://bucket/snapshots" },
        ...{ TENANCY_SNAPSHOT_ENDPOINT: faults.endpoint, AWS_ACCESS_KEY_ID: server.accessKeyId },
        ...{ AWS_SECRET_ACCESS_KEY: server.secretAccessKey },
        ...env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let says = "";
    let hasStarted = false;
    for (const output of [child.stdout, child.stderr]) {
      output.on("data", (chunk: Buffer) => {
        says += chunk;
        if (hasStarted || !says.includes("operator started")) return;
        hasStarted = true;
        child.kill("SIGKILL");
      });
    }
    child.on("error", reject).on("close", () => resolve({ hasStarted, says }));
  });
}

test("it starts with a bucket that does all, also an empty one", async (context) => {
  const { hasStarted, says } = await start(context, {});
  assert.ok(hasStarted, says);
  assert.not.match(says, "cannot find out whether archives can be kept");
});

test("it ends with what is missing in a sentence", async (context) => {
  const { faults } = context;
  for (const [env, message] of [
    [{ TENANCY_SNAPSHOT_STORE: "s3://not-there" }, "NoSuchBucket"],
    [{ AWS_SECRET_ACCESS_KEY: "wrong" }, "SignatureDoesNotMatch"],
    [{ AWS_SECRET_ACCESS_KEY: "" }, "AWS_SECRET_ACCESS_KEY is unset"],
    [{ TENANCY_SNAPSHOT_STORE: "s3://" }, "TENANCY_SNAPSHOT_STORE must be volume, or s3://bucket/prefix"],
  ] as const) {
    const { hasStarted, says } = await start(context, env);
    assert.not.ok(hasStarted);
    assert.match(says.trim().split("\n").at(-1) ?? "", message);
  }
  faults.decide = ({ method }) => (method === "DELETE" ? "denied" : undefined);
  const { says } = await start(context, {});
  assert.match(says, "the credentials lack s3:AbortMultipartUpload, s3:DeleteObject");
});

test("it does not take an empty bucket for that of which archives were seen, unless these are given up", async (context) => {
  const { client } = context.tenancy;
  const metadata = {
    name: SNAPSHOTS_NAME,
    namespace: NAMESPACE,
    annotations: { [annotation.objectStore]: "s3://other" },
  };
  await client.create(secrets, { apiVersion: "v1", kind: "Secret", metadata });
  const refused = await start(context, {});
  assert.not.ok(refused.hasStarted);
  assert.match(
    refused.says,
    /under snapshots: it is empty, but archives were kept .* TENANCY_SNAPSHOT_STORE_EMPTY=true/,
  );
  const { hasStarted, says } = await start(context, { TENANCY_SNAPSHOT_STORE_EMPTY: "true" });
  assert.ok(hasStarted, says);
});

test("it starts where the storage does not answer yet, and says so", async (context) => {
  context.faults.decide = () => "slowDown";
  const { hasStarted, says } = await start(context, { TENANCY_SNAPSHOT_STORE_EMPTY: "true" });
  assert.ok(hasStarted, says);
  assert.match(says, "cannot find out whether archives can be kept; saves and restores wait");
});

test.run();
