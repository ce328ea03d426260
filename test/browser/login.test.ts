// @limit 600
import "./login.ts";
// Reads the claims that the first has made.
import "./login-oidc.ts";
// Ends the claims that the first uses.
import "./shell.ts";
