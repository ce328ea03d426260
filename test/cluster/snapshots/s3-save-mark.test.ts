// @own-cluster
// @limit 400
// What test/unit/snapshots/save-mark.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("../../unit/snapshots/save-mark.test.ts");

export {};
