import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { clusterFolder } from "../folders.ts";
import { containerdSocket } from "../images.ts";
import { runCommand } from "../process/run-command.ts";
import { findOnPath } from "../sources/find-on-path.ts";

/** Of an image of many gigabytes on a slow disk. */
const LIMIT_MS = 30 * 60_000;
const DOCKER = "docker://";
const NAME = "io.containerd.image.name";
/**
 * A tag alone (https://github.com/opencontainers/image-spec/blob/main/annotations.md), or with some programs a whole
 * name.
 */
const REF_NAME = "org.opencontainers.image.ref.name";

/** A manifest or an index, as an index lists it. */
interface Descriptor {
  digest: string;
  annotations?: Record<string, string>;
}

/** What an image is called, both ways. */
interface LoadedImage {
  /** As containerd knows it: `docker.io/library/app:1`. */
  name: string;
  digest: string;
}

/**
 * Loads images into a complete cluster, which pulls none, and returns what to write into `image.ref` for each.
 *
 * A name that ends in `:latest` is given a second one, by its content: Kubernetes pulls `latest` again for each pod.
 *
 * @param source an archive (`docker save`, or an OCI layout in a tar file), an OCI layout's folder, or `docker://NAME`
 * @throws Error that says what is wrong with it
 */
export async function loadImage(cluster: string, source: string): Promise<string[]> {
  const work = mkdtempSync(join(tmpdir(), "tenancy-load-"));
  try {
    const { archive, names } = await prepare(source, work);
    if (names.length === 0) throw new Error(`Cannot load ${source}: there is no image in it`);
    await ctr(cluster, "import", archive).catch((error: Error) => {
      throw new Error(`Cannot load ${source}: ${error.message}`, { cause: error });
    });
    const there = await listImages(cluster);
    const loaded = names.map((name) => {
      const image = there.find((one) => one.name === name);
      if (image !== undefined) return image;
      const platform = process.arch === "x64" ? "linux/amd64" : `linux/${process.arch}`;
      throw new Error(`Cannot load ${source}: containerd took no image ${name} from it; is it there for ${platform}?`);
    });
    return await Promise.all(loaded.map((image) => pinned(cluster, image)));
  } finally {
    rmSync(work, { recursive: true });
  }
}

/**
 * Returns what is wrong with a reference to an image on the local cluster, or undefined.
 *
 * @param ref as in `image.ref`
 */
export async function missingImage(cluster: string, ref: string): Promise<string | undefined> {
  const name = fullName(ref);
  if (name.endsWith(":latest")) return "Kubernetes pulls the tag latest again for each pod, so it needs another one";
  const there = await listImages(cluster);
  return there.some((image) => image.name === name) ? undefined : "the local cluster does not have it, and pulls none";
}

/** The name that containerd and the kubelet make of a reference: with its registry, and a tag. */
export function fullName(ref: string): string {
  const [first = "", ...rest] = ref.split("/");
  const hasRegistry = rest.length > 0 && (/[.:]/.test(first) || first === "localhost");
  const path = hasRegistry ? ref : `docker.io/${rest.length === 0 ? "library/" : ""}${ref}`;
  return /[:@][^/]*$/.test(path) ? path : `${path}:latest`;
}

/** The same as people write it. */
function shortName(name: string): string {
  return name.replace(/^docker\.io\/(library\/)?/, "");
}

/**
 * Says whether there is something to load, before anything else is done; npm says in INIT_CWD where it was called.
 *
 * @throws Error when there is not
 */
export function requireSource(source: string): void {
  const isThere = source.startsWith(DOCKER) ? findOnPath("docker") !== undefined : existsSync(pathOf(source));
  if (isThere) return;
  const name = source.replace(DOCKER, "");
  const why = source.startsWith(DOCKER)
    ? `there is no docker on this machine; where it is, run "docker save -o image.tar ${name}", bring image.tar here and load that`
    : `there is no such file or folder; an image that a Docker on this machine has is ${DOCKER}${name}`;
  throw new Error(`Cannot load ${source}: ${why}`);
}

function pathOf(source: string): string {
  return resolve(process.env.INIT_CWD ?? ".", source);
}

async function prepare(source: string, work: string): Promise<{ archive: string; names: string[] }> {
  requireSource(source);
  if (source.startsWith(DOCKER)) {
    const archive = join(work, "docker.tar");
    await runCommand("docker", ["save", "-o", archive, source.slice(DOCKER.length)], { limitMs: LIMIT_MS });
    return fromArchive(archive, { source, work });
  }
  const path = pathOf(source);
  if (statSync(path).isDirectory()) return fromLayout(path, { source, work });
  return fromArchive(path, { source, work });
}

async function fromArchive(
  archive: string,
  { source, work }: { source: string; work: string },
): Promise<{ archive: string; names: string[] }> {
  const files = await runCommand("tar", ["-tf", archive], { limitMs: LIMIT_MS }).catch((cause: Error) => {
    throw new Error(`Cannot load ${source}: it is no tar file`, { cause });
  });
  const there = new Map(files.split("\n").map((file) => [file.replace(/^\.\//, ""), file]));
  const read = async (file: string) =>
    JSON.parse(await runCommand("tar", ["-xOf", archive, there.get(file) ?? file], { limitMs: LIMIT_MS }));
  // What docker save writes has both; its own list has the names that were asked for.
  if (there.has("manifest.json")) {
    const saved = (await read("manifest.json")) as { RepoTags?: string[] | null }[];
    const names = saved.flatMap(({ RepoTags }) => RepoTags ?? []).map(fullName);
    if (names.length > 0) return { archive, names };
    throw new Error(`Cannot load ${source}: no image in it has a name; save it by its name and not by its id`);
  }
  if (!there.has("index.json")) {
    throw new Error(
      `Cannot load ${source}: it is no image, since it holds neither manifest.json (docker save) nor index.json (OCI layout)`,
    );
  }
  const { manifests } = (await read("index.json")) as { manifests: Descriptor[] };
  if (manifests.every(({ annotations }) => annotations?.[NAME] !== undefined)) {
    return { archive, names: manifests.map(({ annotations }) => fullName(annotations?.[NAME] ?? "")) };
  }
  const folder = join(work, "layout");
  mkdirSync(folder);
  await runCommand("tar", ["-xf", archive, "-C", folder], { limitMs: LIMIT_MS });
  return fromLayout(folder, { source, work });
}

/**
 * Gives those names that have none: the folder's or file's own, and as a tag the one in the layout or the digest's
 * beginning.
 */
async function fromLayout(
  folder: string,
  { source, work }: { source: string; work: string },
): Promise<{ archive: string; names: string[] }> {
  if (!existsSync(join(folder, "index.json"))) {
    throw new Error(`Cannot load ${source}: it is no OCI layout, since it holds no index.json`);
  }
  const index = JSON.parse(readFileSync(join(folder, "index.json"), "utf8")) as { manifests: Descriptor[] };
  const manifests = index.manifests.map((one) => ({
    ...one,
    annotations: { ...one.annotations, [NAME]: nameOf(one, source) },
  }));
  writeFileSync(join(work, "index.json"), JSON.stringify({ ...index, manifests }));
  const archive = join(work, "layout.tar");
  const files = ["-C", folder, "oci-layout", "blobs", "-C", work, "index.json"];
  await runCommand("tar", ["-cf", archive, ...files], { limitMs: LIMIT_MS });
  return { archive, names: manifests.map(({ annotations }) => annotations[NAME]) };
}

function nameOf({ digest, annotations }: Descriptor, source: string): string {
  const given = annotations?.[NAME] ?? annotations?.[REF_NAME];
  if (given !== undefined && (annotations?.[NAME] !== undefined || /[:/]/.test(given))) return fullName(given);
  const own = basename(resolve(source)).replace(/\.(tar|tgz|tar\.gz|oci)$/, "");
  const legal = own
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
  return `localhost/${legal || "image"}:${given ?? shortDigest(digest)}`;
}

async function pinned(cluster: string, { name, digest }: LoadedImage): Promise<string> {
  if (!name.endsWith(":latest")) return shortName(name);
  const other = name.replace(/latest$/, shortDigest(digest));
  await ctr(cluster, "tag", "--force", name, other);
  return shortName(other);
}

function shortDigest(digest: string): string {
  return digest.slice("sha256:".length, "sha256:".length + 12);
}

async function listImages(cluster: string): Promise<LoadedImage[]> {
  const lines = (await ctr(cluster, "ls")).trim().split("\n").slice(1);
  return lines.map((line) => {
    const [name = "", , digest = ""] = line.split(/\s+/);
    return { name, digest };
  });
}

function ctr(cluster: string, ...words: string[]): Promise<string> {
  const socket = containerdSocket(clusterFolder(cluster));
  return runCommand("ctr", ["-a", socket, "-n", "k8s.io", "images", ...words], { limitMs: LIMIT_MS });
}
