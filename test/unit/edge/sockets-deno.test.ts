// @runtimes deno
// @limit 300
import { serveDeno } from "../../../edge/serve/deno.ts";
import { socketSuite } from "./socket-suite.ts";

socketSuite("serveDeno", serveDeno, { lingers: true });
