// @runtimes node
// @limit 300
import { serveNode } from "../../../../edge/serve/node.ts";
import { attachSuite } from "./attach-suite.ts";

attachSuite("serveNode", serveNode);
