// @long the same on Node and Deno: edge-api goes through it on Bun, and unit/edge proves each server's own part
// @own-cluster
process.env.TENANCY_TEST_EDGE_RUNTIMES = "node deno";
await import("./edge-api.test.ts");

export {};
