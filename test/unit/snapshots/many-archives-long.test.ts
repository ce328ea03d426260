// @runtimes node
// @long a million folders take half a minute to make, and some minutes to be read several times
// @limit 1800
import { test } from "uvu";
import { helperHeapMiB, testManyArchives } from "./many-archives.ts";

// A million records would take 4 GB of memory.
testManyArchives({ count: 1_000_000, recorded: false, heapMiB: helperHeapMiB() });

test.run();
