import { findBinaries } from "./binaries.ts";
import { startControlPlane } from "./control-plane.ts";
import { createApiClient } from "./kubernetes/api-client.ts";
import { CONTROL_PLANE_PROGRAMS } from "./programs.ts";

const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS, log: console.log });
const cp = await startControlPlane({ name: "sim", binaries, log: console.log, simulatedNodes: { nodes: 12 } });
const client = createApiClient(cp.kubeconfigPath);
const N = Number(process.argv[2]);
async function ready(): Promise<number> {
  const r = await client.call({
    method: "GET",
    path: "/api/v1/namespaces/default/pods?resourceVersion=0",
    limitMs: 60000,
  });
  return JSON.parse(r.text).items.filter((p: any) =>
    p.status?.conditions?.some((c: any) => c.type === "Ready" && c.status === "True"),
  ).length;
}
let t = performance.now();
let i = 0;
await Promise.all(
  Array.from({ length: 24 }, async () => {
    while (i < N) {
      const n = i++;
      const r = await client.call({
        method: "POST",
        path: "/api/v1/namespaces/default/pods",
        body: { metadata: { name: "p" + n, labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "x" }] } },
      });
      if (r.status !== 201) throw new Error(r.text);
    }
  }),
);
console.log("created", N, Math.round(performance.now() - t));
while ((await ready()) < N) await new Promise((r) => setTimeout(r, 250));
console.log("ready", Math.round(performance.now() - t), "per s", Math.round((N / (performance.now() - t)) * 1000));
for (const name of ["one"]) {
  t = performance.now();
  await client.call({
    method: "POST",
    path: "/api/v1/namespaces/default/pods",
    body: { metadata: { name }, spec: { containers: [{ name: "c", image: "x" }] } },
  });
  while (
    !JSON.parse(
      (await client.call({ method: "GET", path: "/api/v1/namespaces/default/pods/" + name })).text,
    ).status.conditions?.some((c: any) => c.type === "Ready" && c.status === "True")
  )
    await new Promise((r) => setTimeout(r, 5));
  console.log("one", performance.now() - t);
  const one = JSON.parse((await client.call({ method: "GET", path: "/api/v1/namespaces/default/pods/" + name })).text);
  delete one.metadata.managedFields;
  console.log(JSON.stringify(one));
}
t = performance.now();
await client.call({ method: "DELETE", path: "/api/v1/namespaces/default/pods", limitMs: 120000 });
console.log("delete call", Math.round(performance.now() - t));
for (;;) {
  const n = JSON.parse(
    (await client.call({ method: "GET", path: "/api/v1/namespaces/default/pods?resourceVersion=0" })).text,
  ).items.length;
  if (n === 0) break;
  await new Promise((r) => setTimeout(r, 250));
}
console.log("deleted", Math.round(performance.now() - t));

import { readFileSync } from "node:fs";

console.log(readFileSync(cp.folder + "/log/simulated-nodes.log", "utf8").slice(0, 2000));
await cp.stop();
client.close();
