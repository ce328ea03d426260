// @runtimes node
// @waits
// @limit 600
import { test } from "uvu";
import { testManyArchives } from "./many-archives.ts";

testManyArchives({ count: 100_000, recorded: true });

test.run();
