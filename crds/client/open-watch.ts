import type { IncomingMessage } from "node:http";
import type { KubernetesObject } from "../kubernetes.ts";
import { acceptedType } from "./accepted-type.ts";
import type { ClusterClient } from "./cluster-client.ts";
import { parseAnswer } from "./parse-answer.ts";
import { resourcePath } from "./resource-path.ts";
import type { Selection } from "./selection.ts";

export interface OpenedWatch {
  readonly response: IncomingMessage;
  readonly path: string;
  readonly timeoutSeconds: number;
}

/**
 * Asks for a watch of what comes after a resourceVersion, and resolves when the server has agreed to it.
 *
 * @throws ApiError when the server refuses, with the status 410 when it no longer knows what came after
 * @throws NetworkError
 */
export async function openWatch<T extends KubernetesObject>(
  client: ClusterClient,
  options: { selection: Selection<T>; resourceVersion: string; timeoutSeconds: number; signal: AbortSignal },
): Promise<OpenedWatch> {
  const { selection, resourceVersion, timeoutSeconds, signal } = options;
  const { resource, namespace, labelSelector, fieldSelector } = selection;
  const query = {
    watch: true,
    allowWatchBookmarks: true,
    resourceVersion,
    timeoutSeconds,
    labelSelector,
    fieldSelector,
  };
  const path = resourcePath(resource, { namespace, query });
  const accept = acceptedType(resource, "watch");
  const request = { method: "GET", path, accept, verb: "watch", resource: resource.plural, signal } as const;
  const opened = await client.transport.stream(request);
  if (opened.kind === "stream") return { response: opened.response, path, timeoutSeconds };
  parseAnswer(opened.answer, request);
  throw new Error(`Cannot watch ${path}: answered with ${opened.answer.status}`);
}
