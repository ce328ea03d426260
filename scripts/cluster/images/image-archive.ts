import { createHash } from "node:crypto";
import { type TarEntry, tarArchive } from "./tar-archive.ts";

/** An image of one layer, or of two. */
export interface Image {
  /** Such as `localhost/tenancy-hello:1`. */
  readonly name: string;
  /** Of a layer below, which stays the same from version to version. */
  readonly base?: readonly TarEntry[];
  readonly files: readonly TarEntry[];
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  /** Such as `65532:65532`. @default root */
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly workingFolder?: string;
  readonly ports?: readonly number[];
  /** Of the config, and as annotations of the manifest, such as `org.opencontainers.image.version`. */
  readonly labels?: Readonly<Record<string, string>>;
  /** ISO 8601. */
  readonly created?: string;
}

/** What a registry keeps of an image; the manifest names the others. */
export interface ImageBlobs {
  readonly manifest: Blob;
  readonly config: Blob;
  readonly layers: readonly Blob[];
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };
const OCI = "application/vnd.oci.image";

/** A piece of content under its digest. */
interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly content: Buffer;
}

/** Returns the digest that a container runtime gives the image: that of its manifest. */
export function imageDigest(image: Image): string {
  return imageBlobs(image).manifest.digest;
}

/** Returns an archive in the OCI image layout that `ctr images import` takes, with any number of images in it. */
export function imageArchive(images: readonly Image[]): Buffer {
  return tarArchive(imageLayout(images));
}

/**
 * Returns the files and folders of an OCI image layout.
 *
 * Follows https://github.com/opencontainers/image-spec/blob/main/image-layout.md
 */
export function imageLayout(images: readonly Image[]): TarEntry[] {
  const blobs = new Map<string, Buffer>();
  const manifests = images.map((image) => {
    const { manifest, config, layers } = imageBlobs(image);
    for (const { digest, content } of [manifest, config, ...layers]) blobs.set(digest, content);
    const annotations = {
      "io.containerd.image.name": image.name,
      "org.opencontainers.image.ref.name": image.name.slice(image.name.lastIndexOf(":") + 1),
    };
    return { ...descriptor(manifest), annotations };
  });
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
  return [
    { path: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) },
    { path: "index.json", content: json({ schemaVersion: 2, manifests }) },
    { path: "blobs" },
    { path: "blobs/sha256" },
    ...[...blobs].map(([digest, content]) => ({ path: `blobs/sha256/${digest.slice("sha256:".length)}`, content })),
  ];
}

/** Returns the blobs of an image. */
export function imageBlobs(image: Image): ImageBlobs {
  const { base, files, entrypoint, command, user, workingFolder, labels, created } = image;
  const layers = [...(base ? [base] : []), files].map((layer) => blob(`${OCI}.layer.v1.tar`, tarArchive(layer)));
  const config = blob(
    `${OCI}.config.v1+json`,
    Buffer.from(
      JSON.stringify({
        ...(created !== undefined && { created }),
        architecture: ARCHITECTURES[process.arch] ?? process.arch,
        os: "linux",
        config: {
          Env: Object.entries({ PATH: "/bin:/usr/bin", ...image.environment }).map(([key, value]) => `${key}=${value}`),
          ...(entrypoint && { Entrypoint: entrypoint }),
          ...(command && { Cmd: command }),
          ...(user !== undefined && { User: user }),
          ...(workingFolder !== undefined && { WorkingDir: workingFolder }),
          ...(image.ports && { ExposedPorts: Object.fromEntries(image.ports.map((port) => [`${port}/tcp`, {}])) }),
          ...(labels && { Labels: labels }),
        },
        rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => digest) },
      }),
    ),
  );
  const manifest = blob(
    `${OCI}.manifest.v1+json`,
    Buffer.from(
      JSON.stringify({
        schemaVersion: 2,
        mediaType: `${OCI}.manifest.v1+json`,
        config: descriptor(config),
        layers: layers.map(descriptor),
        ...(labels && { annotations: labels }),
      }),
    ),
  );
  return { manifest, config, layers };
}

function blob(mediaType: string, content: Buffer): Blob {
  const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  return { mediaType, digest, size: content.length, content };
}

function descriptor({ mediaType, digest, size }: Blob): Omit<Blob, "content"> {
  return { mediaType, digest, size };
}
