// @runtimes node
// @limit 300
import { test } from "uvu";
import { helperHeapMiB, testManyArchives } from "./many-archives.ts";

// A sixth of its heap, in which it cannot hold that many archives.
testManyArchives({ count: 10_000, recorded: true, heapMiB: Math.round(helperHeapMiB() / 6) });

test.run();
