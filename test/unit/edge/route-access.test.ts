// @runtimes bun node deno
// docs/reference/keys.md says what each key may do. Here each request is made with each key.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { label } from "../../../crds/labels.ts";
import type { Actor } from "../../../edge/access/actor.ts";
import type { OpenApiDocument } from "../../../edge/api/openapi/document.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("what a key may do");

const ROOT = "the-root-key";
const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/keys.md"), "utf8");
const rows = [...page.matchAll(/^\| `([A-Z]+) ([^`]+)` \| (yes|no) \| (yes|no|whole) \| (yes|no|all|whole) \|$/gm)].map(
  ([, method = "", path = "", platform = "", tenant = "", reader = ""]) => ({
    route: `${method} ${path === "/ws" || path === "/docs" ? path : `/api/v1${path}`}`,
    ...{ platform: platform === "yes", tenant: tenant !== "no", tenantOfWorkloads: tenant === "yes" },
    ...{ reader: reader !== "no", readerOfSome: reader === "yes" || reader === "whole" },
    ...{ readerOfWorkloads: reader === "yes" },
  }),
);

const ended = new AbortController().signal;
const actors: Record<string, Actor> = {
  platform: { kind: "key", id: "p", ref: "p-1", role: "platform", tenants: undefined, ended },
  tenant: { kind: "key", id: "t", ref: "t-1", role: "tenant", tenants: ["a", "team-*"], ended },
  reader: { kind: "key", id: "r", ref: "r-1", role: "reader", tenants: undefined, ended },
  readerOfSome: { kind: "key", id: "s", ref: "s-1", role: "reader", tenants: ["a", "team-*"], ended },
  tenantOfWorkloads: {
    ...{ kind: "key", id: "w", ref: "w-1", role: "tenant", tenants: ["a", "team-*"], ended },
    workloads: ["app", "web-*"],
  },
  readerOfWorkloads: {
    ...{ kind: "key", id: "v", ref: "v-1", role: "reader", tenants: undefined, ended },
    workloads: ["app", "web-*"],
  },
};
const allowed = (row: (typeof rows)[number], key: string): boolean => row[key as "platform"];

function open(): TestEdge {
  const keys = { actorOf: (text: string) => actors[text], actorWithRef: () => undefined };
  const edge = testEdge({ apiKey: ROOT, requireKey: true, keys });
  for (const workload of ["app", "web-1", "other"]) edge.cluster.addWorkload(workload);
  for (const tenant of ["a", "team-1", "b"])
    edge.cluster.addPod(`inst-${tenant}`, "Running", { labels: { [label.tenant]: tenant, [label.workload]: "app" } });
  for (const workload of ["web-1", "other"]) {
    const labels = { [label.tenant]: "a", [label.workload]: workload };
    edge.cluster.addPod(`inst-${workload}`, "Running", { labels });
    edge.cluster.addClaim({ tenantId: "a", workloadRef: workload, status: { phase: "Active" } });
  }
  edge.cluster.addPod("inst-warm", "Running", { labels: { [label.pool]: "p" } });
  return edge;
}

/** The request of a route about a tenant, or one of its instances, and a workload. */
function about(route: string, tenant: string, workload = "app"): string {
  const [method = "", pattern = ""] = route.split(" ");
  const isList = /^GET \/api\/v1\/(claims|instances|snapshots|usage)$/.test(route);
  const path = pattern
    .replace("/instances/{id}", `/instances/inst-${tenant}`)
    .replace("/tenants/{id}", `/tenants/${tenant}`)
    .replace("{workload}", workload)
    .replace("{pid}", "1")
    .replace(/\{\w+\}/g, "app");
  return `${method} ${path}${isList ? `?tenant=${tenant}` : ""}`;
}

const names = (route: string): boolean => about(route, "a") !== about(route, "b");

async function ask(edge: TestEdge, key: string, target: string, body?: object) {
  return await edge.call(target, { headers: { authorization: `Bearer ${key}` }, ...(body && { body }) });
}

/** Whether the answer is that of the check of the key, and not of the route. */
function isRefused({ status, error }: { status: number; error: string | undefined }): boolean {
  return status === 401 || (status === 403 && /\bkey\b/.test(error ?? ""));
}

test("the page lists every request that needs a key", async () => {
  const { json } = await ask(open(), ROOT, "GET /api/v1/openapi.json");
  const needing = Object.entries((json as OpenApiDocument).paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { security }]) =>
      security?.length === 0 ? [] : [`${method.toUpperCase()} ${path}`],
    ),
  );
  assert.equal(rows.map(({ route }) => route).sort(), needing.sort());
});

for (const key of Object.keys(actors))
  test(`${key}: each request is allowed or refused as the page says`, async () => {
    for (const row of rows) {
      const edge = open();
      for (const tenant of ["a", "team-1"]) {
        const answer = await ask(edge, key, about(row.route, tenant));
        assert.is(isRefused(answer), !allowed(row, key), `${row.route}: ${answer.status} ${answer.text}`);
        assert.not.match(answer.error ?? "", "for this key", row.route);
      }
      await edge.channels.close();
    }
  });

for (const key of ["tenant", "readerOfSome"])
  test(`${key}: another tenant, and its instance, are answered as if they did not exist`, async () => {
    for (const { route } of rows.filter((row) => allowed(row, key) && names(row.route))) {
      const edge = open();
      const [other, none] = [await ask(edge, key, about(route, "b")), await ask(edge, key, about(route, "zz"))];
      assert.is(other.status, 404, `${route}: ${other.text}`);
      assert.is(other.text.replace(/\b(inst-)?b\b/g, "$1zz"), none.text, route);
      assert.is(none.status, 404, route);
      if (!route.includes("/instances/{id}")) continue;
      const warm = await ask(edge, key, about(route, "warm"));
      assert.equal([warm.status, warm.text.replace("inst-warm", "inst-zz")], [404, none.text], route);
    }
  });

/** Routes whose body names the workload, with what else it needs. */
const bodies: Record<string, object> = {
  "POST /api/v1/tenants/{id}/claim": {},
  "POST /api/v1/tenants/{id}/extend": { seconds: 60 },
  "POST /api/v1/tenants/{id}/release": {},
  "POST /api/v1/tenants/{id}/discard": {},
  "POST /api/v1/tenants/{id}/checkpoint": {},
  "POST /api/v1/tenants/{id}/links": {},
};
const ofWorkload = (route: string): boolean => /\{workload\}|\/instances\/\{id\}/.test(route);

for (const key of ["tenantOfWorkloads", "readerOfWorkloads"])
  test(`${key}: another workload, and what is of it, is answered as if it did not exist`, async () => {
    const own = rows.filter((row) => allowed(row, key));
    for (const { route } of own.filter((row) => ofWorkload(row.route))) {
      const edge = open();
      const asked = async (workload: string) =>
        await ask(edge, key, about(route, route.includes("/instances/{id}") ? workload : "a", workload));
      const [other, none] = [await asked("other"), await asked("otherwise")];
      assert.equal([other.status, none.status], [404, 404], `${route}: ${other.text}`);
      assert.is(other.text.replace(/\bother\b/g, "otherwise"), none.text, route);
      assert.not.match((await asked("web-1")).error ?? "", "for this key", route);
      await edge.channels.close();
    }
    for (const { route } of own.filter((row) => bodies[row.route] !== undefined)) {
      const edge = open();
      for (const name of ["workload", "workloadRef"]) {
        if (name === "workloadRef" && route.endsWith("/links")) continue;
        const asked = async (workload: string) =>
          await ask(edge, key, about(route, "a"), { ...bodies[route], [name]: workload });
        const [other, none] = [await asked("other"), await asked("otherwise")];
        assert.is(other.status, 404, `${route}: ${other.text}`);
        assert.is(other.error, 'workload "other" does not exist for this key, which reaches app, web-* only');
        assert.is(other.text.replace('\\"other\\"', '\\"otherwise\\"'), none.text, route);
      }
      assert.equal(edge.cluster.calls, [], route);
    }
  });

test("each request that a key of some workloads may make is about one workload, or leaves out the others", () => {
  const left = rows.filter(
    (row) => allowed(row, "tenantOfWorkloads") && !ofWorkload(row.route) && bodies[row.route] === undefined,
  );
  const leavesOut = ["claims", "instances", "snapshots", "tenants/{id}", "usage"].map((path) => `GET /api/v1/${path}`);
  assert.equal(
    left.map(({ route }) => route).sort(),
    [
      ...leavesOut,
      ...["GET /api/v1/docs", "GET /api/v1/openapi.json", "GET /docs", "GET /ws"].filter((one) =>
        rows.some(({ route }) => route === one),
      ),
    ].sort(),
  );
});

test("lists leave out what is of other workloads", async () => {
  const edge = open();
  for (const key of ["tenantOfWorkloads", "readerOfWorkloads"]) {
    for (const path of ["claims?tenant=a", "instances?tenant=a", "tenants/a"]) {
      const { status, text } = await ask(edge, key, `GET /api/v1/${path}`);
      assert.is(status, 200, text);
      assert.match(text, "web-1");
      assert.not.match(text, "other");
    }
    for (const path of ["claims", "instances"]) {
      const asked = await ask(edge, key, `GET /api/v1/${path}?tenant=a&workload=other`);
      assert.equal(asked.json, []);
    }
  }
  assert.is((await ask(edge, "readerOfWorkloads", "GET /api/v1/snapshots")).status, 403);
  const instances = (await ask(edge, "readerOfWorkloads", "GET /api/v1/instances")).text;
  assert.match(instances, "inst-b");
  assert.not.match(instances, /inst-(other|warm)/);
});

test("a reader sees no text that a program may have printed", async () => {
  const edge = open();
  const message = "exit code 1 (the output of a program)";
  const status = { phase: "Pending" as const, reason: "CrashLoop", message };
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status });
  for (const target of ["claims?tenant=a", "tenants/a", "tenants/a/claims/app"]) {
    const seen = async (key: string) => (await ask(edge, key, `GET /api/v1/${target}`)).text;
    assert.match(await seen("tenant"), message);
    for (const key of ["reader", "readerOfSome"]) {
      const text = await seen(key);
      assert.not.match(text, "the output of a program");
      assert.match(text, '"reason":"CrashLoop"');
    }
  }
});

test("a tenant's claim names no Secret and no ConfigMap", async () => {
  const edge = open();
  for (const source of [{ secretRef: { name: "b", key: "k" } }, { configMapRef: { name: "b", key: "k" } }]) {
    const call = (key: string) =>
      edge.call("POST /api/v1/tenants/a/claim", {
        body: { workload: "none", files: [{ path: "/f", ...source }] },
        headers: { authorization: `Bearer ${key}` },
      });
    const refused = await call("tenant");
    assert.is(refused.status, 403, refused.text);
    assert.match(refused.error ?? "", "body.files[0]: a key of the role tenant may not name Secrets");
    assert.is.not((await call("platform")).status, 403);
  }
});

test("a list of all tenants is refused to a key of some", async () => {
  const edge = open();
  for (const list of ["claims", "instances", "snapshots"])
    for (const query of ["", "?tenant=", "?tenant=a&tenant=b"]) {
      const { status } = await ask(edge, "tenant", `GET /api/v1/${list}${query}`);
      assert.is(status, query === "" ? 403 : 400, `${list}${query}`);
    }
});

test.run();
