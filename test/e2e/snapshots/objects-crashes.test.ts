// @long the same as faults-crashes on the second store, whose own promises cluster/snapshots/s3-store proves
// @limit 1800
// What faults-crashes.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("./faults-crashes.test.ts");

export {};
