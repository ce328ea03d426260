import { type StartSimulatedNodesOptions, startSimulatedNodes } from "./simulated-node.ts";

await startSimulatedNodes(JSON.parse(process.argv[2] ?? "") as StartSimulatedNodesOptions);
