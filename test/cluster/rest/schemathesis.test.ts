// @long needs packages of PyPI that nothing else does; test/unit/edge/openapi-parity.test.ts holds each route against the document
// @limit 900
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { cachedInstall, installPython } from "./cached-install.ts";
import { KEY, type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("schemathesis on a real API server");
const requirements = join(import.meta.dirname, "schemathesis", "requirements.txt");
let tenancy: Tenancy;
let edge: RestEdge;

test.before(async () => {
  tenancy = await startTenancy("schemathesis");
  const { snapshots } = await recordSaves(tenancy);
  tenancy.startOperator({ snapshots });
  // The examples of the document name it.
  await tenancy.createWorkload("notes");
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_PROXY_DOMAIN: "apps.test" });
});

test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

async function installed(): Promise<string> {
  const files = [requirements];
  const folder = await cachedInstall("schemathesis", { files, install: (empty) => installPython(empty, files) });
  return join(folder, "bin", "schemathesis");
}

/** What no schema can say: a description does. */
const UNSAYABLE = [
  /is an alias of body\.workload and differs/,
  /names cannot change/,
  /is not in the workload's network\.ports/,
  /starts before its claim and cannot get them/,
  /ask for one thing/,
  /inSize: must not be greater than maxSize/,
  /timezone: must be an IANA name/,
  /\.cron: (cannot parse|.* never matches)/,
  /query\.to: must be after query\.from/,
  // The 30th of February.
  /must be a day or a whole hour of UTC/,
];

test("the edge takes what the document allows, refuses the rest, and answers as documented", async () => {
  const program = await installed();
  const words = [
    ...["run", `${edge.process.url}/api/v1/openapi.json`, "--header", `Authorization: Bearer ${KEY}`],
    ...["--seed", "1", "--phases", "examples,coverage,fuzzing", "--max-examples", "20", "--continue-on-failure"],
    ...["--workers", "2", "--request-timeout", "35", "--suppress-health-check", "all", "--no-color"],
    // A handshake that succeeds is no HTTP any more.
    ...["--exclude-path", "/ws"],
    // It makes cases of these two specs for longer than an hour; the others are WebSockets too.
    ...["--exclude-path-regex", "^/api/v1/(workloads|triggers)(/[^/]*)?$|/(attach|terminal)$"],
  ];
  const folder = mkdtempSync(join(tmpdir(), "tenancy-schemathesis-"));
  try {
    const child = spawn(program, words, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    const [code] = await once(child, "close");
    const [, tested] = /^ {2}Tested: (\d+)$/m.exec(output) ?? [];
    assert.ok(Number(tested) > 40, output);
    const failures = output.split(/^\d+\. Test Case ID: /m).slice(1);
    const others = failures.filter(
      (failure) =>
        /^- (?!ST202 )/m.test(failure) || !UNSAYABLE.some((words) => words.test(failure.replaceAll(/\s+/g, " "))),
    );
    assert.equal(others, []);
    assert.is(code, failures.length > 0 ? 1 : 0, output);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
