// @long more trees of the model that saved-trees.test.ts saves and restores
// @limit 14400
import { randomInt } from "node:crypto";

process.env.TENANCY_MODEL_SEQUENCES ??= "10000";
process.env.TENANCY_MODEL_SEED ??= String(randomInt(2 ** 31));
await import("./saved-trees.test.ts");
