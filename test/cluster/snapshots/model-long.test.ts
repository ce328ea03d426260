// @long more sequences of the model that model.test.ts runs
// @limit 2400
process.env.TENANCY_MODEL_SEQUENCES ??= "1000";
await import("./model.test.ts");

export {};
