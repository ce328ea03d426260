import * as assert from "uvu/assert";
import { root } from "../../../edge/access/actor.ts";
import { createAccessTokens } from "../../../edge/e2b/access-token.ts";
import { createDerivedKey } from "../../../edge/http/derived-key.ts";
import type { Case } from "../../at-once.ts";
import { type Asked, type FrontDoor, podOf } from "./front-door.ts";

export const sandboxes: Case<FrontDoor> = [
  "the addresses of E2B's SDKs: an access token opens a running sandbox, by headers and by host, and no pod sees it",
  async (door) => {
    const { apiKey, port } = door;
    const signingKey = createDerivedKey(apiKey, "tenancy sandbox tokens v1");
    const tokens = createAccessTokens({ signingKey, clock: { now: Date.now, after: () => () => undefined } });
    const token = await tokens.sign({ workloadRef: "app", tenantId: "sandy" }, root);
    const own = {
      "x-tenancy-key": "",
      "x-access-token": token,
      "e2b-traffic-access-token": token,
      "x-api-key": "e2b_0",
    };
    const shared = `127.0.0.1:${port}`;
    const at = (id: string, to: number) => ({ "e2b-sandbox-id": id, "e2b-sandbox-port": String(to) });
    const ask = (host: string, path: string, headers: Record<string, string>, more: Omit<Asked, "headers"> = {}) =>
      door.send(host, path, { ...more, headers: { ...own, ...headers } });

    const asleep = await ask(shared, "/", at("app--sandy", 8080));
    assert.is(asleep.status, 502);
    assert.match(String(asleep.body), /"code":502,.*"sandboxId":"app--sandy"/);
    const claims = JSON.parse(await door.stack.kubectl("get", "tenancyclaims", "-o", "json")) as {
      items: { spec: { tenantId: string } }[];
    };
    assert.not(
      claims.items.some(({ spec }) => spec.tenantId === "sandy"),
      "it was woken",
    );

    // Its ordinary address wakes it.
    const woken = await door.send(door.host("app", "sandy"), "/download?bytes=8");
    assert.is(woken.status, 200, String(woken.body));
    for (const [host, headers] of [
      [shared, at("app--sandy", 8080)],
      [`8080-app--sandy.localhost:${port}`, {}],
      [`8080-app--sandy.localhost:${port}`, at("app--sandy", 8080)],
    ] as const) {
      const { status, body } = await ask(host, "/download?bytes=8", headers);
      assert.equal([status, body.length], [200, 8], `${host}: ${body}`);
      const upload = await ask(host, "/digest", headers, { method: "PUT", body: "some" });
      assert.is((JSON.parse(String(upload.body)) as { bytes: number }).bytes, 4);
    }
    const missing = String((await ask(shared, "/", at("nothing--sandy", 8080))).body);
    for (const [id, to] of [
      ["app--cara", 8080],
      ["site--sandy", 8080],
      ["app--sandy", 9002],
    ] as const) {
      const { status, body } = await ask(shared, "/", at(id, to));
      assert.equal([status, String(body)], [404, missing], id);
    }
    const wrong = await ask(shared, "/", {
      ...at("app--sandy", 8080),
      "x-access-token": "x",
      "e2b-traffic-access-token": "x",
    });
    assert.equal([wrong.status, String(wrong.body)], [404, missing]);

    // The server at this port keeps all that it gets, and the next one shows it.
    for (const [host, headers] of [
      [shared, at("app--sandy", 9000)],
      [`9000-app--sandy.localhost:${port}`, { authorization: `Bearer ${apiKey}`, "x-api-key": apiKey }],
    ] as const)
      assert.is((await ask(host, "/mark", headers)).status, 200, host);
    const { host } = await podOf(door, "sandy");
    const kept = ((await (await fetch(`http://${host}:9001/`)).json()) as string[]).join("\n");
    assert.is(kept.match(/GET \/mark /g)?.length, 2, kept);
    for (const secret of [token, apiKey, "e2b", "access-token", "api-key"])
      assert.not.match(kept.toLowerCase(), secret.toLowerCase());

    // The API answers for the daemon.
    for (const [name, headers] of [
      [shared, { "e2b-sandbox-id": "app--sandy" }],
      [`49983-app--sandy.localhost:${port}`, {}],
    ] as const) {
      const { headers: answered, status } = await ask(name, "/health", headers);
      assert.is(answered["x-content-type-options"], "nosniff", `${name}: ${status}`);
    }
  },
];
