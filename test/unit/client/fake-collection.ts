import type { ServerResponse } from "node:http";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { answerJson, type FakeApiServer, startFakeApiServer } from "./fake-api-server.ts";

export interface FakeList {
  readonly resourceVersion?: string;
  readonly continue?: string;
  readonly items?: KubernetesObject[];
  /** A refusal instead. */
  readonly status?: number;
}

export interface FakeWatch {
  readonly query: URLSearchParams;
  send(type: string, object: unknown): void;
  /** Sends bytes as they are. */
  write(bytes: string | Buffer): void;
  /** Ends the watch as a server does whose time is up. */
  end(): void;
  /** Cuts the connection. */
  cut(): void;
}

export interface FakeCollection {
  readonly server: FakeApiServer;
  /** The queries of the lists so far. */
  readonly lists: URLSearchParams[];
  /** The watches so far, refused ones too. */
  readonly watches: FakeWatch[];
}

export function object(
  name: string,
  resourceVersion: number,
  rest: Partial<KubernetesObject["metadata"]> = {},
): KubernetesObject {
  return { metadata: { name, namespace: "a", uid: `uid-${name}`, resourceVersion: String(resourceVersion), ...rest } };
}

/** A collection whose every list and watch a test answers; `onWatch` returns a status where it refuses. */
export async function startFakeCollection(options: {
  onList: (query: URLSearchParams, count: number) => FakeList;
  onWatch?: (watch: FakeWatch, count: number) => number | undefined;
  port?: number;
}): Promise<FakeCollection> {
  const { onList, onWatch, port } = options;
  const lists: URLSearchParams[] = [];
  const watches: FakeWatch[] = [];
  const server = await startFakeApiServer(({ query, socket }, response) => {
    if (query.get("watch") !== "true") {
      const { status, ...list } = onList(query, lists.push(query));
      if (status === undefined) {
        const { items = [], ...metadata } = list;
        answerJson(response, { metadata, items });
      } else {
        refuse(response, status);
      }
      return;
    }
    const watch: FakeWatch = {
      query,
      send: (type, changed) => void response.write(`${JSON.stringify({ type, object: changed })}\n`),
      write: (bytes) => void response.write(bytes),
      end: () => void response.end(),
      cut: () => void socket.destroy(),
    };
    watches.push(watch);
    const status = onWatch?.(watch, watches.length);
    if (status !== undefined) refuse(response, status);
    else if (!response.headersSent) response.writeHead(200).flushHeaders();
  }, port);
  return { server, lists, watches };
}

function refuse(response: ServerResponse, status: number): void {
  const reason = status === 410 ? "Expired" : "Refused";
  answerJson(
    response,
    { kind: "Status", metadata: {}, status: "Failure", reason, message: "no", code: status },
    { status },
  );
}
