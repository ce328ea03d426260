// @long more trees of the model that saved-trees.test.ts saves and restores
// @limit 14400
process.env.TENANCY_MODEL_SEQUENCES ??= "10000";
await import("./saved-trees.test.ts");

export {};
