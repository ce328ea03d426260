// @own-cluster
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../crds/client/clock.ts";
import { triggers } from "../../crds/kinds.ts";
import type { Trigger } from "../../crds/trigger.ts";
import type { Deliverer } from "../../edge/api/deliveries.ts";
import { openPage } from "./browser.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";
import { searchLog } from "./search-log.ts";

const test = suite("browser/hostile");

/** What a tenant, a caller of a webhook or a program can write somewhere. */
const hostile = [
  `<img src=x onerror="window.pwned=1">`,
  `"><script>window.pwned=1</script>`,
  "'><svg onload=window.pwned=1>",
  "javascript:window.pwned=1",
  "{{constructor.constructor('window.pwned=1')()}}",
  "\u202egnp.exe\u2066",
  "\0\ud800\x1b[31mred\x1b]0;title\x07",
].join(" ");
const long = "a".repeat(1_000_000);
const spec: Trigger["spec"] = {
  ...{ type: "webhook", workloadRef: "hello", tenant: { from: hostile } },
  config: { path: "/hook" },
};
const trigger: Trigger = {
  metadata: { name: "hook", namespace: "tenancy", uid: "u" },
  ...{ spec, status: { phase: "Error", detail: hostile } },
};
const gateway: Deliverer = {
  isReady: () => true,
  find: () => trigger,
  deliveriesOf: () => [
    {
      id: hostile,
      at: "2026-01-01T00:00:00Z",
      result: "failed",
      ms: 1,
      tenantId: hostile,
      reason: `${hostile}${long}`,
    },
  ],
  runnerOf: () => ({
    signal: new AbortController().signal,
    async run({ id }, { onEnded }) {
      onEnded?.({ id, at: "2026-01-01T00:00:00Z", result: "answered", ms: 1 });
      const body = new TextEncoder().encode(hostile);
      return { kind: "answered", reply: { status: 200, contentType: "text/html", body, text: hostile } };
    },
  }),
};

let folder: string;
let stage: FakeStage;

test.before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tenancy-hostile-"));
  writeFileSync(join(folder, "printed"), `${hostile}\n${long}\n${hostile}\n`);
  const kubectl = join(folder, "kubectl");
  writeFileSync(
    kubectl,
    `#!/bin/sh
case "$*" in
  version*) echo '{ "clientVersion": { "gitVersion": "v1.30.1" } }';;
  *inst-talker*) echo "started <b>here</b>"; n=0; while true; do n=$((n+1)); echo "line $n"; sleep 0.2; done;;
  *) cat ${folder}/printed;;
esac
`,
  );
  chmodSync(kubectl, 0o755);
  stage = await startFakeStage({ kubectl, gateway, clock: systemClock });
  const { cluster } = stage.edge;
  cluster.addWorkload("hello", {
    version: hostile,
    image: { ref: hostile },
    network: { access: "restricted", allowlist: [hostile], credentials: [] },
    filesystem: { overlayDirs: [`/${hostile}`] },
    entrypoint: { env: { [hostile]: hostile }, args: [hostile, long] },
  });
  cluster.addClaim({
    ...{ tenantId: "alice", workloadRef: "hello" },
    status: {
      ...{ phase: "Active", instanceId: "inst-alice", claimedAt: "2026-01-01T00:00:01.000Z" },
      ...{ endpoint: { host: "10.0.0.1", port: 8080 }, reason: hostile, message: `${hostile}${long}` },
      timeline: [
        { step: "Requested", at: "2026-01-01T00:00:00.000Z" },
        { step: "Active", at: "2026-01-01T00:00:01.000Z" },
      ],
    },
  });
  const claim = cluster.claim("claim-alice-hello");
  cluster.addEvent({ kind: "TenancyClaim", uid: claim.metadata.uid }, { reason: hostile, at: "2026-01-01T00:00:02Z" });
  for (const [tenantId, phase] of [
    ["bob", "Error"],
    ["carol", "ReleaseFailed"],
    ["dave", "Pending"],
  ] as const) {
    cluster.addClaim({ tenantId, workloadRef: "hello", status: { phase, reason: hostile, message: hostile } });
  }
  const talks = { phase: "Active", instanceId: "inst-talker", endpoint: { host: "10.0.0.2", port: 8080 } } as const;
  cluster.addClaim({ tenantId: "tina", workloadRef: "hello", status: talks });
  cluster.add(triggers, trigger);
});
test.after(async () => {
  await stage?.stop();
  rmSync(folder, { recursive: true, force: true });
});

for (const [path, shows] of [
  ["/", "onerror"],
  ["/dashboard/claims", "onerror"],
  ["/dashboard/claims/alice/hello", "onerror"],
  ["/dashboard/claims/bob/hello", "onerror"],
  ["/dashboard/claims/carol/hello", "onerror"],
  ["/dashboard/claims/dave/hello", "onerror"],
  ["/dashboard/instances", "inst-alice"],
  ["/dashboard/instances/inst-alice", "onerror"],
  ["/dashboard/workloads", "onerror"],
  ["/dashboard/workloads/hello", "onerror"],
  ["/dashboard/triggers", "onerror"],
  ["/dashboard/triggers/hook", "onerror"],
] as const) {
  test(`what others write is text on ${path}`, async () => {
    const { page, close } = await openPage(stage.browser);
    await page.goto(`${stage.url}${path}`);
    // A choice of a filter has the same text, and is not seen.
    await page.getByText(shows).filter({ visible: true }).first().waitFor();
    await untouched(page);
    assert.ok((await page.evaluate("document.documentElement.scrollWidth <= innerWidth")) as boolean, "too wide");
    await close();
  });
}

test("what a command prints is text, and so is what a container answers", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/instances/inst-alice`);
  await page.getByLabel("Command", { exact: true }).fill("ls");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const output = page.getByRole("textbox", { name: "Output" });
  await output.waitFor();
  assert.match(await output.inputValue(), hostile.slice(0, 40));
  await page.getByText(/exited with code 0$/).waitFor();
  await untouched(page);

  await page.goto(`${stage.url}/dashboard/triggers/hook`);
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
  const answer = page.getByRole("textbox", { name: "Response of the container" });
  await answer.waitFor();
  assert.match(await answer.inputValue(), hostile.slice(0, 40));
  await untouched(page);
  await close();
});

test("a log is followed and searched", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/instances/inst-talker`);
  await searchLog(page, "inst-talker");
  await close();
});

test("questions about hostile names and messages are text", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/claims/carol/hello`);
  await page.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog").getByText("onerror").waitFor();
  await untouched(page);
  await close();
});

/** Nothing of it became markup or ran. */
async function untouched(page: Awaited<ReturnType<typeof openPage>>["page"]): Promise<void> {
  assert.is(await page.evaluate("window.pwned"), undefined);
  assert.is(await page.locator("main img, main script, main [onerror], main svg[onload]").count(), 0);
  assert.is(await page.locator("a[href^='javascript:']").count(), 0);
}

test.run();
