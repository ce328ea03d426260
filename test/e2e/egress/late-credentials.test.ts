// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { address } from "./namespaces.ts";
import { startTestEnvironment, type TestEnvironment } from "./test-environment.ts";

const test = suite<{ environment: TestEnvironment }>(
  "egress proxy of a pod that was made before its workload had credentials",
);
const reference = { name: "github", key: "token" };
const headers = [{ name: "Authorization", valueFrom: { secretKeyRef: reference } }];

test.before(async (context) => {
  const names = ["first.example", "second.example", "api.example"];
  context.environment = await startTestEnvironment({
    network: { access: "restricted", allowlist: ["first.example", "api.example"] },
    values: new Map([[reference, "secret"]]),
    records: Object.fromEntries(names.map((name) => [name, [address.allowed]])),
  });
});
test.after(async ({ environment }) => environment?.stop());

test("it follows the allowlist, and refuses the new name rather than pass it without its headers", async ({
  environment,
}) => {
  assert.is((await environment.seen({ version: 1, url: "https://api.example/" })).headers.authorization, undefined);
  const credentials = [{ domain: "api.example", headers }];
  await environment.apply({ network: { access: "restricted", allowlist: ["second.example"], credentials } });
  assert.is((await environment.seen({ version: 1, url: "https://second.example/" })).status, 200);
  for (const name of ["first.example", "api.example"]) {
    const answer = await environment.call({ kind: "http", version: 1, url: `https://${name}/` });
    assert.ok("error" in answer, JSON.stringify(answer));
  }
});

test.run();
