// @long builds an image of packages of Debian and PyPI that nothing else needs
// @limit 2700
// @own-cluster
import { createHash, randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sandbox } from "@e2b/code-interpreter";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { buildExample } from "../build/build-example.ts";
import { type Stack, startStack, WITH_BUILDS } from "../claims/stack.ts";
import { startFakeModel } from "./fake-model.ts";
import { pythonAgent } from "./python-sdk.ts";

const NAME = "e2e-interpreter";
const WORKLOAD = "code-interpreter-v1";
const LIMIT_MS = 900_000;
const test = suite("the code interpreter as a workload");
const folder = mkdtempSync(join(tmpdir(), "tenancy-interpreter-"));
let stack: Stack;
let frontDoor: string;

test.before(async () => {
  frontDoor = `http://127.0.0.1:${await freePort()}`;
  const TENANCY_PROXY_LISTEN = new URL(frontDoor).host;
  stack = await startStack(NAME, { ...WITH_BUILDS, TENANCY_PROXY_LISTEN });
  await buildExample(stack, { cluster: NAME, example: "code-interpreter", workload: WORKLOAD });
});

test.after(async () => {
  rmSync(folder, { recursive: true });
  await stack?.interrupt();
  await downLocalCluster({ name: NAME });
});

function options() {
  return { apiKey: "any", apiUrl: `${stack.url}/e2b`, sandboxUrl: frontDoor, requestTimeoutMs: LIMIT_MS };
}

function sandboxOf(tenant: string): Promise<Sandbox> {
  return Sandbox.create({ ...options(), metadata: { tenant } });
}

test("code runs with the variables and secrets of its claim, in kernels from before it and from after it", async () => {
  const inputs = { workload: WORKLOAD, env: { GREETING: "hello" }, secrets: { TOKEN: "only-for-ann" } };
  const { status, body } = await stack.claim("ann", inputs);
  assert.is(status, 201, JSON.stringify(body));
  const sandbox = await sandboxOf("ann");
  const code = "import os\nos.environ['GREETING'], os.environ['TOKEN'], os.getcwd(), os.getuid()";
  assert.is((await sandbox.runCode(code)).text, "('hello', 'only-for-ann', '/home/user', 1000)");
  const context = await sandbox.createCodeContext({ language: "bash" });
  const { logs } = await sandbox.runCode('echo "$GREETING $TOKEN"', { context });
  assert.equal(logs.stdout, ["hello only-for-ann\n"]);
});

test("a plot comes as a picture, a table as data; code whose client has gone ends, also behind the front door", async () => {
  const sandbox = await sandboxOf("ann");
  const { results } = await sandbox.runCode(
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nimport pandas\npandas.DataFrame({'a': [1]})",
    { timeoutMs: 120_000 },
  );
  assert.match(String(results[0]?.png), /^iVBORw0KGgo/);
  assert.equal(results[1]?.data, { a: [1] });
  const late = await sandbox.runCode("while True: pass", { timeoutMs: 2000 }).catch((error: Error) => error);
  assert.is(late.constructor.name, "TimeoutError");
  assert.is((await sandbox.runCode("1 + 1", { timeoutMs: 120_000 })).text, "2");
});

test("files of the home are there after a release; nothing of the kernels is", async () => {
  const sandbox = await sandboxOf("ann");
  await sandbox.runCode("open('kept.txt', 'w').write('kept')");
  const released = await stack.release("ann", WORKLOAD);
  assert.ok(released.status < 300, JSON.stringify(released.body));
  const { status, body } = await stack.claim("ann", { workload: WORKLOAD, resume: true });
  assert.is(status, 201, JSON.stringify(body));
  assert.is(await sandbox.files.read("kept.txt"), "kept", "the front door passes commands and files on to the API");
  assert.is((await sandbox.runCode("open('kept.txt').read()")).text, "kept");
  const { text } = await sandbox.runCode("import os\nsorted(os.listdir())");
  assert.match(text ?? "", /'kept.txt'/);
  assert.not.match(text ?? "", /ipython|kernel|jupyter|\.cache|\.config/);
});

test("the agent that analyses data, as it is: what it answers comes from the kernel of its sandbox", async () => {
  const word = randomUUID();
  const code = [
    `import hashlib\nhash = hashlib.sha256(b"${word}").hexdigest()\nprint("kept")`,
    "import matplotlib.pyplot as plt\nplt.hist([1, 2, 2, 3])\nplt.show()\nhash",
    "1 / 0",
  ];
  const model = await startFakeModel((results) => {
    const next = code[results.length];
    if (next !== undefined) return { tool: "execute_python", input: { code: next } };
    return { text: `answer: ${results.join(" ").replaceAll("\n", " ")}` };
  });
  try {
    const environment = { E2B_API_KEY: "any", E2B_API_URL: `${stack.url}/e2b`, E2B_SANDBOX_URL: frontDoor };
    const output = await runCommand(await pythonAgent(), [join(import.meta.dirname, "agents/data_analyst.py")], {
      ...{ folder, limitMs: LIMIT_MS },
      environment: { ...environment, ...model.environment },
    });
    const hash = createHash("sha256").update(word).digest("hex");
    assert.match(output, new RegExp(`^answer: kept +\\[chart] ${hash} .*ZeroDivisionError`, "m"));
    assert.is(readFileSync(join(folder, "chart-1.png")).toString("latin1", 1, 4), "PNG");
  } finally {
    await model.close();
  }
  const left = await Sandbox.list({ ...options(), query: { state: ["running"] } }).nextItems();
  const ofTemplate = left.filter(({ templateId }) => templateId === WORKLOAD);
  assert.equal(
    ofTemplate.map(({ metadata }) => metadata),
    [{ tenant: "ann" }],
  );
});

test.run();
