// @long the same on Node and Deno: events goes through it on Bun, and unit/edge proves each server's own part
// @own-cluster
process.env.TENANCY_TEST_EDGE_RUNTIMES = "node deno";
await import("./events.test.ts");

export {};
