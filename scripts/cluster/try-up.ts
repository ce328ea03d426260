import { downLocalCluster, upLocalCluster } from "./local-cluster.ts";

const t = performance.now();
const log = (m: string) => console.log(((performance.now() - t) / 1000).toFixed(2).padStart(6), m);
if (process.argv[2] === "up") {
  console.log(await upLocalCluster({ name: process.argv[3] ?? "tenancy", log }));
} else console.log(await downLocalCluster({ name: process.argv[3] ?? "tenancy", log }));
log("done");
