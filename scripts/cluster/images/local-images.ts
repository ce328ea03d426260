import { readFileSync } from "node:fs";
import type { Log } from "../log.ts";
import { busyboxFiles, findStaticBusybox } from "./busybox.ts";
import type { Image } from "./image-archive.ts";
import { findInsideProgram, insideFile } from "./inside-program.ts";
import type { TarEntry } from "./tar-archive.ts";

export const PAUSE_IMAGE = "localhost/tenancy-pause:1";
export const BUSYBOX_IMAGE = "localhost/tenancy-busybox:1";
/** What `TENANCY_TOOLS_IMAGE` names on the local cluster. */
export const TOOLS_IMAGE = "localhost/tenancy-tools:1";
export const HELLO_IMAGE = "localhost/tenancy-hello:1";
export const HELLO_ROOT_IMAGE = "localhost/tenancy-hello-root:1";
export const CRASH_IMAGE = "localhost/tenancy-crash:1";

const NONROOT = "65532:65532";

/** The shell is process 1 and catches the signal, which busybox httpd in its place would ignore. */
const SERVE = `#!/bin/sh
trap 'kill $server; exit 0' TERM INT
httpd -f -p "\${PORT:-8080}" -h /www &
server=$!
wait $server
`;

const PAGE = `#!/bin/sh
printf 'Content-Type: text/html; charset=utf-8\\r\\n\\r\\n'
echo "<!doctype html><title>hello</title><h1>hello from $(hostname)</h1>"
`;

/** Returns the images of each local cluster. The tools image lacks the program `inside` if it cannot be built. */
export async function findLocalImages(log: Log): Promise<Image[]> {
  const [busybox, inside] = await Promise.all([findStaticBusybox(log), findInsideProgram(log)]);
  return localImages(await busyboxFiles(busybox), inside === undefined ? {} : { inside: readFileSync(inside) });
}

/**
 * Returns the images that the programs, the examples and tests use.
 *
 * @param busybox files of an image with busybox in it
 * @param options.inside the program of that name @default none
 */
export function localImages(busybox: readonly TarEntry[], { inside }: { inside?: Buffer } = {}): Image[] {
  const hello: Omit<Image, "name"> = {
    files: [
      ...busybox,
      { path: "www" },
      { path: "www/healthz", content: Buffer.from("ok\n") },
      { path: "www/cgi-bin" },
      // busybox httpd runs this one for a folder that has no index.html.
      { path: "www/cgi-bin/index.cgi", content: Buffer.from(PAGE), mode: 0o755 },
      { path: "bin/serve-hello", content: Buffer.from(SERVE), mode: 0o755 },
    ],
    entrypoint: ["/bin/serve-hello"],
    ports: [8080],
  };
  return [
    { name: PAUSE_IMAGE, files: busybox, entrypoint: ["/bin/busybox", "sleep", "infinity"] },
    { name: BUSYBOX_IMAGE, files: busybox, command: ["sh"] },
    {
      name: TOOLS_IMAGE,
      files: [...busybox, ...(inside === undefined ? [] : [insideFile(inside)])],
      command: ["sh"],
      user: NONROOT,
    },
    { ...hello, name: HELLO_IMAGE, user: NONROOT },
    { ...hello, name: HELLO_ROOT_IMAGE },
    {
      name: CRASH_IMAGE,
      files: busybox,
      command: ["/bin/sh", "-c", "echo 'tenancy-crash: ends with status 1, as it is made to' >&2; exit 1"],
      user: NONROOT,
    },
    ...exampleImages(busybox),
  ];
}

export const ECHO_HTTP_IMAGE = "localhost/tenancy-echo-http:1";
export const ECHO_AGENT_BRIDGE_IMAGE = "localhost/tenancy-echo-agent-bridge:1";
export const ECHO_AGENT_CONTROL_IMAGE = "localhost/tenancy-echo-agent-control:1";

const PROGRAMS = new URL("../../../manifests/examples/agents/", import.meta.url);

/** Returns the images of `manifests/examples/agents`, which repeat each message (docs/reference/drivers.md). */
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
