// @runtimes node
// @limit 300
import { serveNode } from "../../../edge/serve/node.ts";
import { socketSuite } from "./socket-suite.ts";

socketSuite("serveNode", serveNode);
