// @long the same on Node and Deno: webhook goes through it on Bun, and unit/edge proves each server's own part
// @limit 900
process.env.TENANCY_TEST_EDGE_RUNTIMES = "node deno";
await import("./webhook.test.ts");

export {};
