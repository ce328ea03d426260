// @runtimes node
// @limit 300
import { test } from "uvu";
import { helperHeapMiB, testManyArchives } from "./many-archives.ts";

// A third of its heap, in which it cannot hold that many archives.
testManyArchives({ count: 30_000, recorded: true, heapMiB: Math.round(helperHeapMiB() / 3) });

test.run();
