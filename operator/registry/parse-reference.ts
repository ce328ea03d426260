import { isImageReference } from "../../crds/schema/image-reference.ts";

/** The parts of an image reference, with what a runtime fills in. */
export interface ImageReference {
  /** `host` or `host:port`; `docker.io` for Docker Hub. */
  readonly host: string;
  /** Such as `library/busybox`. */
  readonly repository: string;
  /** `latest` where the reference has neither a tag nor a digest. */
  readonly tag: string | undefined;
  /** `algorithm:hex`; it decides where there is a tag as well. */
  readonly digest: string | undefined;
}

const HUB = "docker.io";

/**
 * Reads an image reference as containerd does: `busybox` is `docker.io/library/busybox:latest`.
 *
 * Follows https://pkg.go.dev/github.com/distribution/reference#ParseDockerRef
 *
 * @throws Error when the text is no image reference
 */
export function parseReference(text: string): ImageReference {
  if (!isImageReference(text)) throw new Error(`Cannot read the image reference ${text}`);
  const [named = "", digest] = text.split("@");
  const colon = named.lastIndexOf(":");
  const hasTag = colon > named.lastIndexOf("/");
  const name = hasTag ? named.slice(0, colon) : named;
  const tag = hasTag ? named.slice(colon + 1) : digest === undefined ? "latest" : undefined;
  const { host, path } = splitName(name);
  const isHub = host === HUB || host === "index.docker.io";
  const repository = isHub && !path.includes("/") ? `library/${path}` : path;
  return { host: isHub ? HUB : host, repository, tag, digest };
}

/** The host that an image's name begins with, or Docker Hub, and the rest of the name; also of one that is not valid. */
export function splitName(name: string): { host: string; path: string } {
  const slash = name.indexOf("/");
  const first = name.slice(0, Math.max(0, slash));
  // A first part without these is a folder on Docker Hub.
  const isHost = /[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase();
  return isHost ? { host: first, path: name.slice(slash + 1) } : { host: HUB, path: name };
}

/** The `host` or `host:port` at which a registry listens. */
export function registryHost(host: string): string {
  return host === HUB ? "registry-1.docker.io" : host;
}
