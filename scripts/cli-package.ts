// npm run cli-package: builds the command line's npm package into dist/cli, for `npm pack` or `npm publish` there.
import { join } from "node:path";
import { buildCliPackage } from "./cli/build-package.ts";

await buildCliPackage(join(import.meta.dirname, ".."), join(import.meta.dirname, "../dist/cli"));
console.log("dist/cli written");
