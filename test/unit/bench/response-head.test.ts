import { test } from "uvu";
import * as assert from "uvu/assert";
import { readResponseHead } from "../../../scripts/bench/http/generate-load.ts";

test("readResponseHead: status and length of head and body together", () => {
  const head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n";
  assert.equal(readResponseHead(Buffer.from(`${head}{"a":1`)), { status: 201, length: head.length + 12 });
});

test("readResponseHead: undefined until the head is complete", () => {
  assert.is(readResponseHead(Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n")), undefined);
});

test("readResponseHead: a body of unknown length is refused", () => {
  assert.throws(() => readResponseHead(Buffer.from("HTTP/1.1 200 OK\r\nx-content: 1\r\n\r\n")), /no content-length/);
});

test.run();
