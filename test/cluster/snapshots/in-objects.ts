// Imported before them, it has the unit tests of a file keep archives in object storage.
process.env.TENANCY_TEST_STORE = "s3";

export {};
