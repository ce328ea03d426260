// @own-cluster
// @runtimes node bun
// The last two stop the API server, and start it with another history and another flag.
import "./calls.ts";
import "./identity.ts";
import "./watch.ts";
import "./restored.ts";
import "./expired.ts";
