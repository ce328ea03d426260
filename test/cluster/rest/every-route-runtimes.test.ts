// @long the same on Node and Deno: every-route goes through it on Bun, and unit/edge proves each server's own part
// @own-cluster
// @limit 900
process.env.TENANCY_TEST_EDGE_RUNTIMES = "node deno";
await import("./every-route.test.ts");

export {};
