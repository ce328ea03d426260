// @runtimes deno
// @limit 300
import { serveDeno } from "../../../edge/serve/deno.ts";
import { envdSuite } from "./envd-suite.ts";

envdSuite("serveDeno", serveDeno, { lingers: true });
