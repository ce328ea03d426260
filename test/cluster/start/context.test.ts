import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse, stringify } from "yaml";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { type Stack, startStack } from "../../e2e/claims/stack.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("npm start on a cluster that is there");
const folder = mkdtempSync(join(tmpdir(), "tenancy-start-context-"));
const KUBECONFIG = join(folder, "kubeconfig");
let tenancy: Tenancy;
let stack: Stack | undefined;

interface Kubeconfig {
  clusters: { name: string; cluster: object }[];
  contexts: { name: string; context: object }[];
}

test.before(async () => {
  tenancy = await startTenancy("start-context");
  const own = parse(readFileSync(tenancy.cluster.kubeconfigPath, "utf8")) as Kubeconfig;
  const [mine] = own.contexts;
  const elsewhere = { server: "https://127.0.0.1:1" };
  const config = {
    ...own,
    clusters: [...own.clusters, { name: "elsewhere", cluster: elsewhere }],
    contexts: [
      { name: "elsewhere", context: { ...mine?.context, cluster: "elsewhere" } },
      { name: "the one", context: mine?.context },
    ],
    "current-context": "elsewhere",
  };
  writeFileSync(KUBECONFIG, stringify(config));
});
test.after(async () => {
  await stack?.interrupt();
  await tenancy?.stop();
  rmSync(folder, { recursive: true });
});

for (const [command, words] of [
  ["npm start", []],
  ["npm run dev", ["--watch"]],
] as const) {
  test(`${command} -- --context uses that cluster, and leaves it as it is`, async () => {
    const env = { KUBECONFIG, PATH: `${dirname(await findKubectl())}:${process.env.PATH}` };
    const context = ["--context", "the one", "--image", "simulated/hello:1"];
    stack = await startStack("start-context", env, [...context, ...words]);
    assert.not.match(stack.output(), /local cluster/);
    const tenant = `ann-${words.length}`;
    const claimed = await stack.claim(tenant, { workload: "hello" });
    assert.is(claimed.status, 201, JSON.stringify(claimed.body));
    assert.is(await stack.interrupt(), 0, stack.output());
    const claim = await tenancy.untilClaim(`claim-${tenant}-hello`, { phase: "Active" });
    assert.equal(
      (await tenancy.podsOf(claim)).map(({ metadata }) => metadata.name),
      [claimed.body.instanceId],
    );
  });
}

test("a context that is not there is named, and nothing is started", async () => {
  const env = { KUBECONFIG, PATH: `${dirname(await findKubectl())}:${process.env.PATH}` };
  const failed = await startStack("start-context", env, ["--context", "none"]).catch(String);
  assert.match(String(failed), /ended with 1[\s\S]*Cannot use context "none": [\s\S]*See: kubectl config get-contexts/);
  assert.not.match(String(failed), /-> operator and edge/);
});

test.run();
