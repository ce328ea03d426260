import { readFileSync } from "node:fs";
import type { Image } from "./image-archive.ts";
import type { TarEntry } from "./tar-archive.ts";

export const ECHO_HTTP_IMAGE = "localhost/tenancy-echo-http:1";
export const ECHO_AGENT_BRIDGE_IMAGE = "localhost/tenancy-echo-agent-bridge:1";
export const ECHO_AGENT_CONTROL_IMAGE = "localhost/tenancy-echo-agent-control:1";

const PROGRAMS = new URL("../../../manifests/examples/agents/", import.meta.url);

/** Returns the images of `manifests/examples/agents`, which answer with what they were asked (docs/drivers.md). */
export function exampleImages(busybox: readonly TarEntry[]): Image[] {
  const common = { user: "65532:65532", ports: [8080] };
  const agentFiles = [...busybox, program("websocket.sh"), program("serve-agent")];
  const agent = (name: string): Pick<Image, "files" | "entrypoint"> => ({
    files: [...agentFiles, program(name)],
    entrypoint: ["/bin/serve-agent", `/bin/${name}`],
  });
  return [
    {
      ...common,
      name: ECHO_HTTP_IMAGE,
      files: [
        ...busybox,
        program("serve-echo-http"),
        { path: "www" },
        { path: "www/cgi-bin" },
        // busybox httpd runs this one for a folder that has no index.html.
        program("echo-http", "www/cgi-bin/index.cgi"),
      ],
      entrypoint: ["/bin/serve-echo-http"],
    },
    { ...common, ...agent("echo-agent-bridge"), name: ECHO_AGENT_BRIDGE_IMAGE },
    { ...common, ...agent("echo-agent-control"), name: ECHO_AGENT_CONTROL_IMAGE },
  ];
}

function program(name: string, path: string = `bin/${name}`): TarEntry {
  return { path, content: readFileSync(new URL(name, PROGRAMS)), mode: 0o755 };
}
