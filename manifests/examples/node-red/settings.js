/** Settings of Node-RED behind the front door: docs/how-to/run-node-red.md. */
const { events } = require("@node-red/util");

// Node-RED listens before its flows run. It reports their state when they run, or when the editor can show why they do
// not.
let loaded = false;
events.on("runtime-event", ({ id, payload }) => {
  if (id === "runtime-state" && payload !== undefined) loaded = true;
});

module.exports = {
  userDir: "/data",
  uiHost: "0.0.0.0",
  uiPort: 1880,
  flowFile: "flows.json",
  // Without adminAuth: the front door asks for the key or the link, and a password here would be that of all tenants.
  // Without credentialSecret: Node-RED makes one for each tenant, in /data/.config.runtime.json.
  contextStorage: { default: { module: "localfilesystem" } },
  // The workload reaches no network, so it installs no nodes.
  externalModules: { palette: { allowInstall: false }, modules: { allowInstall: false } },
  telemetry: { enabled: false, updateNotification: false },
  editorTheme: { tours: false },
  httpAdminMiddleware(request, response, next) {
    if (request.path !== "/loaded") next();
    else response.sendStatus(loaded ? 200 : 503);
  },
};
