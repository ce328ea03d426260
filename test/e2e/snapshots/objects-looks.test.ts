// @limit 900
// What faults-looks.test.ts tests, with archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";
await import("./faults-looks.test.ts");

export {};
