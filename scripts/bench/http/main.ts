// The load generator as a process of its own: takes a LoadOrder as JSON and prints a LoadResult.

import { generateLoad, type LoadOrder } from "./generate-load.ts";

console.log(JSON.stringify(await generateLoad(JSON.parse(process.argv[2] ?? "") as LoadOrder)));
