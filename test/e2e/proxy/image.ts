import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDebianPackage } from "../../../scripts/cluster/debian-packages.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import type { Image } from "../../../scripts/cluster/images/image-archive.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { unpackDebianPackages } from "../../../scripts/cluster/images/unpack-debian-packages.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

export const IMAGE = "localhost/tenancy-front-door:1";
/** What the image's programs are run with. */
export const COMMANDS = {
  nginx: { cmd: "/usr/sbin/nginx", args: ["-c", "/app/nginx.conf"] },
  wsgi: { cmd: "/usr/bin/python3", args: ["/app/wsgi-program.py"] },
  node: { cmd: process.execPath, args: ["/app/node-program.mjs"] },
} as const;

export const PAGE = "A page that nginx serves, long enough to be worth a compression.\n".repeat(64);

const root = join(import.meta.dirname, "..", "..", "..");

/** An image with Debian's nginx and Python, this machine's Node and the programs of this folder. */
export async function frontDoorImage(folder: string): Promise<Image> {
  const python = await pythonOfDebian();
  const packages = ["nginx", `${python}-minimal`, `lib${python}-stdlib`];
  const unpacked = await unpackDebianPackages(packages, { name: `front-door-${python}`, log: silent });
  const bundle = join(folder, "node-program.mjs");
  const source = join(import.meta.dirname, "node-program.ts");
  await runCommand("node_modules/.bin/bun", ["build", "--target=node", source, "--outfile", bundle], { folder: root });
  const base = await busyboxFiles(await findStaticBusybox(silent));
  const stdlib = readdirSync(join(unpacked, "usr/lib", python), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".py"))
    .map((entry) => join(entry.parentPath, entry.name).slice(unpacked.length));
  const programs = await programFiles({
    programs: ["/usr/sbin/nginx", `/usr/bin/${python}`],
    files: stdlib,
    ...{ base, root: unpacked },
  });
  const node = await programFiles({ programs: [process.execPath], files: [], base: [...base, ...programs] });
  const own = (name: string, path = join(import.meta.dirname, name)) => ({
    path: `app/${name}`,
    content: readFileSync(path),
  });
  return {
    name: IMAGE,
    user: "65532:65532",
    files: [
      ...new Map([...base, ...programs, ...node].map((entry) => [entry.path, entry])).values(),
      { path: "usr/bin/python3", linkTo: python },
      { path: "app" },
      own("nginx.conf"),
      own("wsgi-program.py"),
      own("node-program.mjs", bundle),
      { path: "data", uid: 65532, gid: 65532 },
      { path: "site" },
      { path: "site/page.txt", content: Buffer.from(PAGE) },
      { path: "site/folder" },
      { path: "site/folder/index.html", content: Buffer.from("<!doctype html><title>folder</title>") },
    ],
  };
}

/** The name of the Python of this Debian release, such as `python3.11`. */
async function pythonOfDebian(): Promise<string> {
  // Has the lists fetched where there are none.
  await isDebianPackage("python3-minimal", silent);
  const needed = await runCommand("apt-cache", ["depends", "python3-minimal"]);
  const [, name] = /Depends: (python3\.\d+)-minimal/.exec(needed) ?? [];
  if (name === undefined) throw new Error(`Cannot tell which Python this Debian has:\n${needed}`);
  return name;
}
