import type { WorkloadSpec } from "../../../crds/workload.ts";

/** Runs a script of the shell for each connection, which is its input and output; `$0` is a name in /bin. */
function serve(script: string): NonNullable<WorkloadSpec["entrypoint"]> {
  return { cmd: "/bin/busybox", args: ["nc", "-ll", "-p", "8080", "-e", "/bin/sh", "-c", script, "/bin/named"] };
}

/** Answers a request with the container's own name and the request's body, so that one that went astray shows. */
export const namedHttp = serve(`
  length=0
  while read -r name value && [ "$name" != "$(printf '\\r')" ]; do
    case $name in [Cc]ontent-[Ll]ength:) length=\${value%?} ;; esac
  done
  text="$HOSTNAME $(head -c "$length")"
  printf 'HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: %s\\r\\n\\r\\n%s' "$(printf %s "$text" | wc -c)" "$text"
`);

/** The example's agent of driver-a, which puts the container's own name before what it was asked. */
export const namedAgentBridge = serve('eval "$(sed "s/echo: /$HOSTNAME: /" /bin/echo-agent-bridge)"');

/** The example's agent of driver-b, which notes in the container's log what it is asked. */
export const loggingAgentControl = serve(
  'eval "$(sed "s,text=.*field message.*,&; echo \\"asked: \\$text\\" > /proc/1/fd/2," /bin/echo-agent-control)"',
);
