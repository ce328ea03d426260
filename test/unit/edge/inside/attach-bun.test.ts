// @runtimes bun
// @limit 300
import { serveBun } from "../../../../edge/serve/bun.ts";
import { attachSuite } from "./attach-suite.ts";

attachSuite("serveBun", serveBun);
