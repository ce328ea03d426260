// @limit 600
import "./claims.ts";
import "./overview.ts";
// Makes what the overview finds wrong.
import "./acts.ts";
