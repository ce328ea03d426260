import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import type { Image } from "../../../scripts/cluster/images/image-archive.ts";
import type { TarEntry } from "../../../scripts/cluster/images/tar-archive.ts";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import type { Bundles } from "../../cluster/isolation/bundle-programs.ts";

export const OPERATOR_IMAGE = "localhost/tenancy-operator:e2e";
export const EDGE_IMAGE = "localhost/tenancy-edge:e2e";

/**
 * The images of the Dockerfiles as far as they can be made without a registry: the same bundles, this machine's
 * runtimes.
 */
export async function programImages({ operator, edge }: Bundles): Promise<Image[]> {
  const system = [
    ...(await busyboxFiles(await findStaticBusybox(silent))),
    // For programs that look names up: the hosts file first.
    { path: "etc/nsswitch.conf", content: Buffer.from("hosts: files dns\n") },
  ];
  const [node = "", operatorFile = ""] = operator;
  const [bun = "", edgeFile = ""] = edge;
  const user = "65532:65532";
  return [
    {
      name: OPERATOR_IMAGE,
      user,
      files: unique([...system, ...(await program(node, "node")), ...placed(operatorFile, "app/operator.mjs")]),
      entrypoint: ["/usr/bin/node", "/app/operator.mjs"],
    },
    {
      name: EDGE_IMAGE,
      user,
      files: unique([
        ...system,
        ...(await program(bun, "bun")),
        ...(await program(await findKubectl(), "kubectl")),
        ...placed(edgeFile, "app/edge.js"),
      ]),
      entrypoint: ["/usr/bin/bun", "/app/edge.js"],
    },
  ];
}

/** A program with the libraries that it needs, where the loader looks for them. */
async function program(path: string, name: string): Promise<TarEntry[]> {
  // A static program has none, which ldd calls a failure.
  const linked = await runCommand("ldd", [path]).catch(() => "");
  const libraries = [...linked.matchAll(/(?:=> |^\s+)(\/\S+) \(0x/gm)].map(([, library = ""]) => library);
  return [...placed(path, `usr/bin/${name}`), ...libraries.flatMap((library) => placed(library, library.slice(1)))];
}

function placed(from: string, path: string): TarEntry[] {
  return [...folders(dirname(path)), { path, content: readFileSync(from), mode: 0o755 }];
}

function folders(path: string): TarEntry[] {
  return path === "." ? [] : [...folders(dirname(path)), { path }];
}

function unique(entries: TarEntry[]): TarEntry[] {
  return [...new Map(entries.map((entry) => [entry.path, entry])).values()];
}
