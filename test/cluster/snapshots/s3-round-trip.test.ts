// @own-cluster
// @limit 400
// What test/unit/snapshots/round-trip.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("../../unit/snapshots/round-trip.test.ts");

export {};
