// @long more of the changes that increments.test.ts saves and compares
// @limit 14400
import { env } from "node:process";

env.TENANCY_MODEL_SEQUENCES ??= "10000";
await import("./increments.test.ts");
