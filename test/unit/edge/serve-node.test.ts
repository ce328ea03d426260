// @runtimes node
// @limit 300
import { serveNode } from "../../../edge/serve/node.ts";
import { adapterSuite } from "./adapter-suite.ts";

adapterSuite("serveNode", serveNode);
