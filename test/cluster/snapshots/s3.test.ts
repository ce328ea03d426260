// @own-cluster
// @runtimes node bun
// @limit 900
import "./s3-contexts.ts";
import "./s3-probe.ts";
import "./s3-records.ts";
import "./s3-store.ts";
