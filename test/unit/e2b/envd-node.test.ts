// @runtimes node
// @limit 300
import { serveNode } from "../../../edge/serve/node.ts";
import { envdSuite } from "./envd-suite.ts";

envdSuite("serveNode", serveNode);
