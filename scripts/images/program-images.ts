import { readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { findBinaries, programPath } from "../cluster/binaries.ts";
import { busyboxFiles } from "../cluster/images/busybox.ts";
import type { Image } from "../cluster/images/image-archive.ts";
import { findInsideProgram, insideFile, insideProgram } from "../cluster/images/inside-program.ts";
import type { TarEntry } from "../cluster/images/tar-archive.ts";
import type { Log } from "../cluster/log.ts";
import { bundleDashboard } from "../start/bundle-dashboard.ts";
import { bundleEdge, bundleOperator, OPERATOR_FLAGS } from "../start/bundle-programs.ts";
import { billOfMaterials, type Component, goComponents, npmComponent, npmComponents } from "./bill-of-materials.ts";
import { bundledPackages } from "./bundled-packages.ts";
import { nodeComponent, nodeFolder } from "./node-runtime.ts";
import type { Source } from "./source.ts";
import { debianProgram, debianRoot, systemLayer } from "./system-layer.ts";

/** An image and its content. */
export interface ProgramImage {
  readonly image: Image;
  /** CycloneDX in JSON. The image contains it too. */
  readonly billOfMaterials: Buffer;
}

interface Parts {
  readonly base: readonly TarEntry[];
  readonly files: readonly TarEntry[];
  readonly components: readonly Component[];
  readonly run: Pick<Image, "entrypoint" | "command" | "environment">;
}

const PARTS = { operator: operatorParts, edge: edgeParts, proxy: proxyParts, tools: toolsParts } as const;

/** The names of the images, as in the names of the Dockerfiles. */
export type ProgramImageName = keyof typeof PARTS;
export const PROGRAM_IMAGES = Object.keys(PARTS) as ProgramImageName[];

/**
 * Builds what a Dockerfile of `manifests/images` builds, but without a base image: the same bundle, with a runtime from
 * npm and the libraries that it needs from Debian.
 */
export async function programImage(name: ProgramImageName, source: Source, log: Log): Promise<ProgramImage> {
  const { base, files, components, run } = await PARTS[name](source, log);
  const title = `tenancy-${name}`;
  const { version, created, revision } = source;
  const bill = billOfMaterials({ name: title, version, created }, components);
  const folder = `usr/share/doc/${title}`;
  const labels = {
    "org.opencontainers.image.title": title,
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.licenses": "Apache-2.0",
    ...(revision !== undefined && { "org.opencontainers.image.revision": revision }),
    ...(created !== undefined && { "org.opencontainers.image.created": created }),
  };
  const image: Image = {
    name: `localhost/${title}:${version}`,
    base,
    files: [
      ...files,
      ...["usr", "usr/share", "usr/share/doc", folder].map((path) => ({ path })),
      { path: `${folder}/copyright`, content: readFileSync(join(source.root, "LICENSE")) },
      { path: `${folder}/sbom.cdx.json`, content: bill },
    ],
    user: "65532:65532",
    labels,
    ...(created !== undefined && { created }),
    ...run,
  };
  return { image, billOfMaterials: bill };
}

async function operatorParts({ root, version }: Source, log: Log): Promise<Parts> {
  const node = await nodeFolder(log);
  const programs = [{ path: "/usr/bin/node", file: join(node, "bin/node") }];
  const { layer, components } = await systemLayer(programs, await debianRoot(log));
  const packages = await bundledPackages("operator/main.ts", { root, target: "node" });
  return {
    base: [
      ...layer,
      { path: "usr/share/doc/node" },
      { path: "usr/share/doc/node/copyright", content: readFileSync(join(node, "LICENSE")) },
    ],
    files: app("operator.mjs", await bundleOperator(root), root),
    components: [
      ...components,
      nodeComponent,
      own(version),
      ...npmComponents(join(root, "package-lock.json"), packages),
    ],
    run: { entrypoint: ["node", ...OPERATOR_FLAGS, "/app/operator.mjs"] },
  };
}

async function edgeParts({ root, version }: Source, log: Log): Promise<Parts> {
  const debian = await debianRoot(log);
  const kubectl = programPath(await findBinaries({ need: ["kubectl"], log }), "kubectl");
  const programs = [
    { path: "/usr/bin/bun", file: realpathSync(join(root, "node_modules/.bin/bun")) },
    { path: "/usr/bin/kubectl", file: kubectl },
  ];
  const { layer, components } = await systemLayer(programs, debian);
  const packages = [
    ...(await bundledPackages("edge/main.ts", { root, target: "bun" })),
    ...(await bundledPackages("edge/dashboard/main.tsx", { root, target: "browser" })),
    "node_modules/bun",
  ];
  // Without this, the edge's bundle could still be built, but would have no dashboard.
  await bundleDashboard(root);
  return {
    base: layer,
    files: app("edge.js", await bundleEdge(root), root),
    components: [
      ...components,
      ...goComponents(kubectl),
      own(version),
      ...npmComponents(join(root, "package-lock.json"), packages),
    ],
    run: { entrypoint: ["bun", "/app/edge.js"] },
  };
}

/**
 * The image of the proxy. It has a shell, which runs the operator's scripts, and `inside`, since its init container also
 * copies the tools.
 */
async function proxyParts(source: Source, log: Log): Promise<Parts> {
  return await shellParts(["/usr/sbin/haproxy", "/usr/sbin/nft"], { source, log });
}

/** The image of the tools, which an init container copies into the pods. */
async function toolsParts(source: Source, log: Log): Promise<Parts> {
  return await shellParts([], { source, log });
}

/** An image with busybox as its shell, the program `inside`, and programs of the Debian packages. */
async function shellParts(paths: readonly string[], { source, log }: { source: Source; log: Log }): Promise<Parts> {
  const debian = await debianRoot(log);
  const busybox = debianProgram(debian, "/bin/busybox");
  const programs = [busybox, ...paths.map((path) => debianProgram(debian, path))];
  const { layer, components } = await systemLayer(programs, debian);
  const links = (await busyboxFiles(busybox.file)).filter(({ linkTo }) => linkTo !== undefined);
  const inside = await findInside(source, log);
  return {
    base: [...layer, ...links],
    files: inside === undefined ? [] : [{ path: "bin" }, insideFile(readFileSync(inside))],
    components: [...components, ...(inside === undefined ? [] : goComponents(inside, source))],
    run: { command: ["sh"], environment: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } },
  };
}

async function findInside({ mayLackInside = false }: Source, log: Log): Promise<string | undefined> {
  return await (mayLackInside ? findInsideProgram(log) : insideProgram({ log }));
}

/** Replaces this folder, which Bun writes for `__dirname`, by the folder that the Dockerfiles build in. */
function app(name: string, bundle: string, root: string): TarEntry[] {
  const code = readFileSync(bundle, "utf8").replaceAll(`"${root}/`, '"/build/');
  return [{ path: "app" }, { path: `app/${name}`, content: Buffer.from(code) }];
}

function own(version: string): Component {
  return npmComponent({ name: "tenancy", version, license: "Apache-2.0" }, "application");
}
