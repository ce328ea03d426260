// @runtimes bun node
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { createS3Client, elementsOf } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Store, type S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { errorOf } from "../../error-of.ts";
import { call, key, listAll, load } from "./store-contract.ts";

interface Context {
  answer: (request: IncomingMessage, response: ServerResponse) => void;
  asked: string[];
  port: number;
  store: S3Store;
  close(): Promise<void>;
}

const test = suite<Context>("a server of object storage that is hostile");
const PIECE = Buffer.alloc(256 * 1024, "x");

test.before.each(async (context) => {
  context.asked = [];
  const server = createServer((request, response) => {
    context.asked.push(`${request.method} ${request.url}`);
    context.answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  context.port = (server.address() as AddressInfo).port;
  const credentials = async () => ({ accessKeyId: "id", secretAccessKey: "secret" });
  const endpoint = `http://127.0.0.1:${context.port}`;
  const client = createS3Client({ endpoint, region: "r", bucket: "b", isPathStyle: true, credentials });
  context.store = createS3Store({ client, bucket: "b", prefix: "p" });
  context.close = async () => {
    client.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
});
test.after.each(({ close }) => close());

/** Goes on for as long as the client reads. */
function sendForEver(response: ServerResponse): () => number {
  let bytes = 0;
  function more(): void {
    while (!response.destroyed) {
      bytes += PIECE.length;
      if (!response.write(PIECE)) {
        response.once("drain", more);
        return;
      }
    }
  }
  more();
  return () => bytes;
}

test("an answer without an end is not held", async (context) => {
  let sent = () => 0;
  context.answer = (_request, response) => {
    sent = sendForEver(response);
  };
  for (const attempt of [() => context.store.look(key, call), () => listAll(context.store, { versions: true })]) {
    const error = await errorOf(attempt());
    assert.ok(error instanceof StoreError && /more than \d+ bytes/.test(error.message), String(error));
    assert.ok(sent() < 64 * 1024 * 1024, String(sent()));
  }
});

test("an archive that goes on is not passed on beyond what was recorded", async (context) => {
  const { tenantId, workloadRef } = key;
  const version = {
    ...{ sha256: "a".repeat(64), sizeBytes: 300_000, tenantId, workloadRef, uid: 1, gid: 1, entries: 1 },
    ...{ createdAt: "2026-11-21T12:00:00.000Z", contentBytes: 1, overlayDirs: ["/data"] },
    blob: "20261122T010203Z-0123456789abcdef.tar.gz",
  };
  const head = JSON.stringify({ commit: "c", versions: [version] });
  context.answer = (request, response) => {
    if (request.url?.includes("/heads/") === true)
      response.setHeader("x-amz-meta-commit", "c").setHeader("etag", '"e"').end(head);
    else sendForEver(response);
  };
  assert.instance(await errorOf(load(context.store)), ArchiveError);
});

test("a list that leads in a circle, or says not how it goes on, is no list", async (context) => {
  for (const token of ["<NextContinuationToken>t</NextContinuationToken>", ""]) {
    context.answer = (_request, response) =>
      response.end(`<ListBucketResult><IsTruncated>true</IsTruncated>${token}</ListBucketResult>`);
    const error = await errorOf(listAll(context.store, { versions: false }));
    assert.ok(error instanceof StoreError && /not the last one/.test(error.message), String(error));
  }
});

test("an answer of 200 that is none of object storage is neither an empty list nor a damaged head", async (context) => {
  const list = "<ListBucketResult><Contents><Key>p/heads/a/b.json</Key></Contents>";
  for (const body of ["", "<html><body>Please sign in</body></html>", list]) {
    context.answer = (_request, response) => response.setHeader("etag", '"e"').end(body);
    for (const ask of [() => listAll(context.store, { versions: false }), () => context.store.look(key, call)]) {
      const error = await errorOf(ask());
      assert.ok(error instanceof StoreError && error.isTransient && /the response is not a/.test(error.message), body);
    }
  }
});

test("elements that are never closed, and entities, cost one look at each letter", () => {
  assert.equal(elementsOf("<Contents>".repeat(800_000), "Contents"), []);
  assert.equal(elementsOf("<a><b>1</b><b></b>2</b><b>", "b"), ["1", ""]);
  const bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Contents><Key>&b;</Key></Contents>';
  assert.equal(elementsOf(bomb, "Contents"), ["<Key>&b;</Key>"]);
});

test("a redirection is not followed, and nobody else is shown a signature", async (context) => {
  for (const status of [301, 302, 307, 308]) {
    context.asked.length = 0;
    context.answer = (_request, response) =>
      response.writeHead(status, { location: `http://127.0.0.1:${context.port}/elsewhere` }).end();
    assert.instance(await errorOf(context.store.look(key, call)), StoreError, String(status));
    assert.equal(context.asked, [`GET /b/p/heads/${key.tenantId}/${key.workloadRef}.json`]);
  }
});

test.run();
