import type { Log } from "../../crds/log.ts";

function nothing(): void {
  // What is logged is no part of these tests.
}

export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };
