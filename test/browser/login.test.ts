// @limit 600
import "./login.ts";
// Ends the claims that the first uses.
import "./shell.ts";
