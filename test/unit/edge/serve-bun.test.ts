// @runtimes bun
// @limit 300
import { serveBun } from "../../../edge/serve/bun.ts";
import { adapterSuite } from "./adapter-suite.ts";

adapterSuite("serveBun", serveBun);
