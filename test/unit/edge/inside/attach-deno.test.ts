// @runtimes deno
// @limit 300
import { serveDeno } from "../../../../edge/serve/deno.ts";
import { attachSuite } from "./attach-suite.ts";

attachSuite("serveDeno", serveDeno, { lingers: true });
