// @limit 3600
// @own-cluster
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { RUN_PAGES, shellBlocks } from "../../doc-blocks.ts";
import { type Stack, startStack, WITH_BUILDS } from "../claims/stack.ts";
import { type Pasted, paste } from "./paste.ts";

const NAME = "e2e-docs";
const root = join(import.meta.dirname, "../../..");
const test = suite("lines of the pages, pasted in their order");
let stack: Stack;
let folder: string;

test.before(async () => {
  await installDebianPackages(["curl"], console.log);
  stack = await startStack(NAME, WITH_BUILDS);
  // Files that are written stay out of the repository.
  folder = mkdtempSync(join(tmpdir(), "tenancy-docs-"));
  for (const name of readdirSync(root)) symlinkSync(join(root, name), join(folder, name));
});
test.after(async () => {
  await stack?.interrupt();
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** As the tutorial says, a build begins when `npm start` has the builder's image. */
async function untilBuilder(): Promise<void> {
  await waitUntil(() => /^ok builder image/m.test(stack.output()), {
    ...{ what: "the builder's image", limitMs: 1_200_000, intervalMs: 200, explain: stack.output },
  });
}

/** The addresses and the name of the cluster that `npm start` has without a word are another's on this machine. */
function onThisStack(commands: string): string {
  const [, door = ""] = /^alice's instance: +http:\/\/hello--alice\.localhost:(\d+)\/$/m.exec(stack.output()) ?? [];
  return commands
    .replaceAll("http://127.0.0.1:8080", stack.url)
    .replaceAll(/(hello--alice\.localhost|127\.0\.0\.1):8081/g, `$1:${door}`)
    .replaceAll("cluster -- kubeconfig", `cluster -- kubeconfig --name ${NAME}`)
    .replaceAll("workload -- build", `workload -- build --url ${stack.url}`)
    .replaceAll(/^(\s*kubectl .*\bwait .*--for=(?!.*--timeout).*?)(\s+#.*)?$/gm, "$1 --timeout=300s$2");
}

/** What a command did otherwise than the page says; undefined where it did as that says. */
function differenceOf({ command, output, exitCode }: Pasted): string | undefined {
  const [, said = ""] = /\s#\s(.*)$/.exec(command.split("\n").at(-1) ?? "") ?? [];
  const shown = `${command}\n=> ${exitCode}: ${output.slice(-1500)}`;
  const [status] = /^[45]\d\d\b/.exec(said) ?? [];
  if (status !== undefined) return exitCode === 22 ? undefined : `expected ${status}: ${shown}`;
  if (exitCode !== 0) return shown;
  const quoted = said.match(/"\w+":"[^"]+"|^\[\]$|^buy \w+$/g) ?? [];
  const missing = quoted.filter((text) => !output.includes(text));
  return missing.length === 0 ? undefined : `expected ${missing.join(" and ")}: ${shown}`;
}

for (const page of RUN_PAGES) {
  test(`${page}: each line does what the page says`, async () => {
    const blocks = shellBlocks(page).filter(({ notRun }) => notRun === undefined);
    // This is how the lines after it come to have something to talk to.
    const commands = blocks.map((block) => block.commands).filter((text) => text !== "npm start");
    if (commands.some((text) => text.includes("dockerfile"))) await untilBuilder();
    const PATH = `${dirname(await findKubectl())}:${process.env.PATH}`;
    const environment = {
      ...{ HOME: process.env.HOME, PATH, KUBECONFIG: stack.kubeconfigPath },
      PASTE_HEADERS: join(folder, ".headers"),
    };
    const pasted = await paste(onThisStack(commands.join("\n")), { folder, environment });
    assert.ok(pasted.length > 0);
    assert.is(pasted.flatMap((one) => differenceOf(one) ?? []).join("\n\n"), "");
  });
}

test.run();
