import { execFileSync } from "node:child_process";
import { findBinaries } from "/work/main/scripts/cluster/binaries.ts";
import { startControlPlane } from "/work/main/scripts/cluster/control-plane.ts";
import { CONTROL_PLANE_PROGRAMS } from "/work/main/scripts/cluster/programs.ts";

const t = performance.now();
const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS, log: console.log });
console.log(Math.round(performance.now() - t));
const cp = await startControlPlane({ name: process.argv[2] ?? "try", binaries, log: console.log });
console.log(Math.round(performance.now() - t), cp.kubeconfigPath, cp.server);
const k = (...a: string[]) => execFileSync("kubectl", ["--kubeconfig", cp.kubeconfigPath, ...a], { encoding: "utf8" });
console.log(k("create", "ns", "a"), k("get", "ns"));
await cp.etcd.compact();
const u = cp.clientCertificate({ user: "jane", groups: ["dev"] });
try {
  execFileSync("kubectl", ["--kubeconfig", u.kubeconfigPath, "get", "pods"], { encoding: "utf8", stdio: "pipe" });
} catch (e) {
  console.log((e as Error).message);
}
const t2 = performance.now();
await cp.apiServer.stop();
console.log("stopped", Math.round(performance.now() - t2));
await cp.apiServer.start({ extraFlags: ["--watch-cache=false"] });
console.log("restarted", Math.round(performance.now() - t2));
console.log(k("get", "ns", "a"));
if (process.env.CRASH) process.kill(process.pid, "SIGKILL");
await cp.stop();
console.log("end", Math.round(performance.now() - t));
