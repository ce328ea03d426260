// @runtimes bun node deno
// How much progress the edge holds for a client of /mcp that does not read.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { mcpRoutes } from "../../../edge/mcp/routes.ts";
import { createUnread } from "../../../edge/mcp/unread.ts";
import { eventually } from "../../eventually.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("mcp: unread progress");
const PIECES = 150;
/** Each character takes 6 bytes in JSON, so all of them are more than may wait. */
const PIECE = "\u0001".repeat(1000);

/** A process whose pieces of output come when asked for; `end` resolves once all were taken. */
function processOf(mayGoOn?: (piece: number) => Promise<void>) {
  let tellEnd = (): void => undefined;
  const end = new Promise<void>((resolve) => {
    tellEnd = resolve;
  });
  let piece = 0;
  const event = (value: object) => new TextEncoder().encode(`data: ${JSON.stringify(value)}\n\n`);
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (piece < PIECES) {
          await mayGoOn?.(piece);
          controller.enqueue(event({ type: "stdout", offset: piece * PIECE.length, text: PIECE }));
          piece += 1;
          return;
        }
        controller.enqueue(event({ type: "process", process: { state: "ended", exitCode: 0 } }));
        controller.close();
        tellEnd();
      },
    },
    { highWaterMark: 0 },
  );
  return { end, handler: async () => new Response(body, { headers: { "content-type": "text/event-stream" } }) };
}

/** Runs a command by /mcp. @returns the answer, whose body is unread */
async function run(handler: () => Promise<Response>, progressToken: unknown): Promise<Response> {
  const audit = { begin: () => undefined } as never;
  const [route] = mcpRoutes({
    ...{ handler, apiKey: undefined, authenticate: undefined, checkPage: () => undefined, audit, log: silentLog },
  });
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const given = { tenant: "ann", workload: "app", command: ["true"] };
  const params = { name: "run", arguments: given, _meta: { progressToken } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const request = new Request("http://edge.test/mcp", { method: "POST", headers, body });
  const answer = await route?.handle(request as never, { peerOf: () => "192.0.2.7" } as never);
  assert.ok(answer);
  return answer;
}

interface Message {
  readonly method?: string;
  readonly params?: { readonly progress: number; readonly message: string };
  readonly result?: { readonly structuredContent: { readonly exitCode: number } };
  readonly error?: { readonly code: number; readonly message: string };
}

async function* messagesOf(answer: Response): AsyncGenerator<Message, void> {
  let text = "";
  for await (const bytes of answer.body as unknown as AsyncIterable<Uint8Array>) {
    text += new TextDecoder().decode(bytes);
    const whole = text.split("\n\n");
    text = whole.pop() ?? "";
    for (const one of whole) {
      const data = /^data: (.*)$/m.exec(one)?.[1];
      if (data !== undefined) yield JSON.parse(data);
    }
  }
}

test("of a client that does not read, only some progress waits, and its answer", async () => {
  const { handler, end } = processOf();
  const answer = await run(handler, "p".repeat(256));
  await end;
  const messages: Message[] = [];
  for await (const message of messagesOf(answer)) messages.push(message);
  const reports = messages.slice(0, -1);
  const bytes = Buffer.byteLength(JSON.stringify(reports));
  // 256 KiB, and the last pieces, which may come once it reads.
  assert.ok(bytes > 200 * 1024 && bytes < 300 * 1024, `${bytes} bytes`);
  assert.is(messages.at(-1)?.result?.structuredContent.exitCode, 0);
});

test("a client that reads gets all progress", async () => {
  let seen = 0;
  const { handler } = processOf((piece) => eventually(() => seen >= piece));
  let last: Message | undefined;
  for await (const message of messagesOf(await run(handler, 7))) {
    last = message;
    if (message.method !== "notifications/progress") continue;
    seen += 1;
    assert.equal([message.params?.progress, message.params?.message], [seen, PIECE]);
  }
  assert.equal([seen, last?.result?.structuredContent.exitCode], [PIECES, 0]);
});

test("the unread progress of a key is limited over all its messages, and forgotten when they end", () => {
  const begin = createUnread({ ofMessage: 10, ofKey: 25 });
  const [first, second, third] = [begin("a"), begin("a"), begin("a")];
  assert.equal(
    [first.add(10), first.add(1), second.add(10), third.add(6), third.add(5)],
    [true, false, true, false, true],
  );
  assert.is(begin("b").add(10), true);
  second.close();
  second.close();
  assert.equal([second.add(1), third.add(5)], [false, true]);
  first.read(1000);
  assert.equal([begin("a").add(10), begin("a").add(6), begin("a").add(5)], [true, false, true]);
});

test("a longer progress token is refused before anything runs", async () => {
  const never = async () => assert.unreachable("a call was made");
  const messages: Message[] = [];
  for await (const message of messagesOf(await run(never as never, "p".repeat(257)))) messages.push(message);
  assert.equal([messages.length, messages[0]?.error?.code], [1, -32602]);
  assert.match(messages[0]?.error?.message ?? "", "the progressToken has 257 characters; send one of at most 256");
});

test.run();
