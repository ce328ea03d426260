import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseSockets, receivedBetween } from "../../../scripts/bench/environment/received-bytes.ts";

const printed = `0      0        127.0.0.1:41178   127.0.0.1:6443 users:(("node (x",pid=24694,fd=222))
\t bbr wscale:10,10 rto:200 bytes_sent:12976 bytes_acked:12976 bytes_received:97 segs_out:1 segs_in:3
0      0            [::1]:25962       [::1]:6443 users:(("bun",pid=26030,fd=76))
\t cubic wscale:10,10 bytes_received:9488
0      0        127.0.0.1:25963   127.0.0.1:6443 users:(("bun",pid=26030,fd=77))
\t cubic wscale:10,10
0      0        127.0.0.1:25964   127.0.0.1:6443
\t cubic wscale:10,10 bytes_received:5
`;

test("parseSockets: bytes of each connection and its owner; nothing of those whose owner is not shown", () => {
  assert.equal(
    parseSockets(printed).map(({ pid, bytes }) => [pid, bytes]),
    [
      [24694, 97],
      [26030, 9488],
      [26030, 0],
    ],
  );
  assert.equal(parseSockets(""), []);
});

test("receivedBetween: what one program received, over connections that are new since too", () => {
  const look = (bytes: number) => ({ pid: 1, connection: "a", bytes });
  const opened = { pid: 1, connection: "b", bytes: 30 };
  const ended = { pid: 1, connection: "c", bytes: 1000 };
  const others = { pid: 2, connection: "d", bytes: 7 };
  assert.is(receivedBetween([look(100), ended], [look(150), opened, others], 1), 80);
});

test.run();
