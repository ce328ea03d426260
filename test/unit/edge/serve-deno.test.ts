// @runtimes deno
// @limit 300
import { serveDeno } from "../../../edge/serve/deno.ts";
import { adapterSuite } from "./adapter-suite.ts";

adapterSuite("serveDeno", serveDeno, { cuts: false, closes: false });
