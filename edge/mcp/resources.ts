import type { Client } from "../client/index.ts";
import { readPart } from "./file-tools.ts";
import { MOST_BYTES } from "./limits.ts";
import { InputError } from "./tool.ts";

/** The files of instances, as RFC 6570 has them. */
export const template = {
  uriTemplate: "tenancy://{tenant}/{workload}/files/{+path}",
  name: "files",
  title: "Files of an instance",
  description: `A file of the instance of a tenant's claim, up to ${MOST_BYTES / 1024} KiB. The tool read_file reads parts of larger ones.`,
};

const URI = /^tenancy:\/\/([^/?#]+)\/([^/?#]+)\/files\/+([^?#]+)$/;

/** @throws InputError for a URI of another kind, or a file that is too large; ApiError */
export async function readResource(
  uri: string,
  { client, signal }: { client: Client; signal: AbortSignal },
): Promise<{ uri: string; text: string } | { uri: string; blob: string; mimeType: string }> {
  const [, tenant, workload, path] = URI.exec(uri) ?? [];
  if (tenant === undefined || workload === undefined || path === undefined)
    throw new InputError(`uri: must be ${template.uriTemplate}`);
  const place = { tenant: decoded(tenant), workload: decoded(workload) };
  const part = await readPart(client, { place, path: decoded(path), signal });
  if (part.nextOffset !== undefined)
    throw new InputError(
      `the file has ${part.sizeBytes} bytes, more than one answer may have; read it in parts with the tool read_file`,
    );
  if (part.encoding === "utf-8") return { uri, text: part.content };
  return { uri, blob: part.content, mimeType: "application/octet-stream" };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InputError("uri: is not valid percent-encoding");
  }
}
