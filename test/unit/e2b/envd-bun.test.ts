// @runtimes bun
// @limit 300
import { serveBun } from "../../../edge/serve/bun.ts";
import { envdSuite } from "./envd-suite.ts";

envdSuite("serveBun", serveBun);
