// @own-cluster
// @limit 400
// What test/unit/snapshots/snapshots.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("../../unit/snapshots/snapshots.test.ts");

export {};
