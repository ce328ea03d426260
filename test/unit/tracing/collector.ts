import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A span as a collector gets it, with its attributes as an object. */
export interface CollectedSpan {
  readonly service: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links?: readonly { traceId: string; spanId: string }[];
  readonly status?: { code: number };
}

/** A collector of traces on this machine. */
export interface Collector {
  /** Its base, for OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string;
  /** Of every request, also of those that it refused. */
  readonly requests: { path: string; headers: IncomingHttpHeaders; body: string }[];
  /** What it took. */
  readonly spans: CollectedSpan[];
  /** Answers a request; spans count as taken where this is a success. */
  answer: (response: ServerResponse) => void;
  stop(): Promise<void>;
}

interface ExportRequest {
  resourceSpans: {
    resource: { attributes: KeyValue[] };
    scopeSpans: { spans: (Omit<CollectedSpan, "service" | "attributes"> & { attributes: KeyValue[] })[] }[];
  }[];
}

interface KeyValue {
  key: string;
  value: Record<string, unknown>;
}

export async function startCollector(): Promise<Collector> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString();
      collector.requests.push({ path: request.url ?? "", headers: request.headers, body });
      collector.answer(response);
      if (response.writableEnded && response.statusCode === 200) collector.spans.push(...spansOf(JSON.parse(body)));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    spans: [],
    answer: (response) => void response.writeHead(200, { "content-type": "application/json" }).end("{}"),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return collector;
}

function spansOf({ resourceSpans }: ExportRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(valuesOf(resource.attributes)["service.name"]);
    const spans = scopeSpans.flatMap((scope) => scope.spans);
    return spans.map((span) => ({ ...span, service, attributes: valuesOf(span.attributes) }));
  });
}

function valuesOf(pairs: readonly KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]]));
}

/** The spans as a tree, a line each, in the order in which they began; for tests and pages to show. */
export function treeOf(spans: readonly CollectedSpan[], line: (span: CollectedSpan) => string): string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const begun = [...spans].sort((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)));
  const below = (parent: string | undefined, depth: number): string[] =>
    begun
      .filter(({ parentSpanId }) => (parent === undefined ? !ids.has(parentSpanId ?? "") : parentSpanId === parent))
      .flatMap((span) => [`${"  ".repeat(depth)}${line(span)}`, ...below(span.spanId, depth + 1)]);
  return below(undefined, 0);
}
