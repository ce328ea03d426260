// Started by orphans.test.ts, which kills it.
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";

const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
await startControlPlane({ name: process.argv[2] ?? "", binaries, simulatedNodes: { nodes: 1 } });
console.log("up");
setInterval(() => undefined, 60_000);
