// @long the same as faults-slow on the second store, whose own promises cluster/snapshots/s3-store proves
// @limit 1800
// What faults-slow.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("./faults-slow.test.ts");

export {};
