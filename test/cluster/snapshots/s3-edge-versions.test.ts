// @own-cluster
// @runtimes bun node
// @limit 400
// What test/unit/edge/snapshot-versions.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("../../unit/edge/snapshot-versions.test.ts");

export {};
