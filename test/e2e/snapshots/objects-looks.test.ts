// @long the same as faults-looks on the second store, whose own promises cluster/snapshots/s3-store proves
// @limit 1800
// What faults-looks.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("./faults-looks.test.ts");

export {};
