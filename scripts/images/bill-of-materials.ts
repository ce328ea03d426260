import { readFileSync } from "node:fs";

/** A component of an image in CycloneDX (https://cyclonedx.org/docs/1.6/json/). */
export interface Component {
  readonly type: "application" | "library";
  readonly name: string;
  readonly version: string;
  /** https://github.com/package-url/purl-spec */
  readonly purl: string;
  /** SPDX expression. */
  readonly license?: string;
  /** SHA-512 in base64. */
  readonly sha512?: string;
}

/** Returns the components of an image as CycloneDX in JSON: the same bytes for the same components. */
export function billOfMaterials(
  image: { name: string; version: string; created?: string | undefined },
  components: readonly Component[],
): Buffer {
  const byPurl = new Map(components.map((component) => [component.purl, component]));
  const document = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      ...(image.created !== undefined && { timestamp: image.created }),
      component: { type: "container", "bom-ref": image.name, name: image.name, version: image.version },
    },
    components: [...byPurl.keys()].sort().map((purl) => {
      const { type, name, version, license, sha512 } = byPurl.get(purl) as Component;
      return {
        ...{ type, "bom-ref": purl, name, version, purl },
        ...(license !== undefined && { licenses: [{ expression: license }] }),
        ...(sha512 !== undefined && {
          hashes: [{ alg: "SHA-512", content: Buffer.from(sha512, "base64").toString("hex") }],
        }),
      };
    }),
  };
  return Buffer.from(`${JSON.stringify(document, null, 1)}\n`);
}

/**
 * Returns a Debian package.
 *
 * @param control its control file
 */
export function debianComponent(control: string): Component {
  const field = (name: string) => new RegExp(`^${name}: (.+)$`, "m").exec(control)?.[1] ?? "";
  const [name, version] = [field("Package"), field("Version")];
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${field("Architecture")}`;
  return { type: "library", name, version, purl };
}

/** A package in package-lock.json. */
interface Locked {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
}

/**
 * Returns npm packages.
 *
 * @param lock path of package-lock.json
 * @param paths such as `node_modules/pino`
 */
export function npmComponents(lock: string, paths: Iterable<string>): Component[] {
  const { packages } = JSON.parse(readFileSync(lock, "utf8")) as { packages: Record<string, Locked> };
  return [...paths].map((path) => {
    const locked = packages[path];
    if (locked === undefined) throw new Error(`Cannot find ${path} in ${lock}`);
    const { version, license, integrity } = locked;
    return npmComponent({
      name: path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length),
      version,
      ...(license !== undefined && { license }),
      ...(integrity?.startsWith("sha512-") && { sha512: integrity.slice("sha512-".length) }),
    });
  });
}

/** Returns an npm package. */
export function npmComponent(
  component: Omit<Component, "type" | "purl">,
  type: Component["type"] = "library",
): Component {
  const { name, version } = component;
  return { ...component, type, purl: `pkg:npm/${name.replace("@", "%40")}@${version}` };
}

/** The bytes before the toolchain's version in a Go program, as `go version` reads it. */
const GO_HEADER = Buffer.from("\xff Go buildinf:", "latin1");
const GO_HEADER_LENGTH = 32;
/** The bytes around the list of modules. */
const GO_MARK = Buffer.from("3077af0c9274080241e1c107e6d618e6", "hex");
const GO_END = Buffer.from("f932433186182072008242104116d8f2", "hex");
/** What Go lists as the version of a module that was built from its folder. */
const NO_VERSION = "(devel)";

/**
 * Returns the modules that a Go program was built from, its own first and the standard library last.
 *
 * @param own the version of a program that was built from its folder, which has none in Go's list
 * @throws Error if the file does not contain this list
 */
export function goComponents(path: string, own?: { readonly version: string }): Component[] {
  const file = readFileSync(path);
  const header = file.indexOf(GO_HEADER);
  const start = file.indexOf(GO_MARK, header);
  const end = file.indexOf(GO_END, start);
  if (header < 0 || start < 0 || end < 0)
    throw new Error(`Cannot list the modules of ${path}: it has no build information of Go`);
  const lines = file.toString("utf8", start + GO_MARK.length, end).split("\n");
  const modules = lines.flatMap((line): Component[] => {
    const [word, name = "", version = ""] = line.split("\t");
    if (word !== "mod" && word !== "dep") return [];
    if (word === "dep") return [goModule(name, version, "library")];
    return [goModule(name, version === NO_VERSION && own !== undefined ? own.version : version, "application")];
  });
  const at = header + GO_HEADER_LENGTH;
  const toolchain = file.toString("latin1", at + 1, at + 1 + (file[at] ?? 0)).replace(/^go/, "");
  return [...modules, goModule("stdlib", toolchain, "library")];
}

function goModule(name: string, version: string, type: Component["type"]): Component {
  return { type, name, version, purl: `pkg:golang/${name}@${encodeURIComponent(version)}` };
}
