// @runtimes bun
// @limit 300
import { serveBun } from "../../../edge/serve/bun.ts";
import { socketSuite } from "./socket-suite.ts";

socketSuite("serveBun", serveBun);
