import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server that speaks as much of the OpenAI chat API as an agent needs. */
export interface FakeModel {
  readonly url: string;
  /** The questions that were asked, in order. */
  readonly questions: string[];
  /** What becomes of the next answers: `hold` keeps them until it is another. */
  mode: "answer" | "hold" | "refuse";
  close(): Promise<void>;
}

/** Starts one that answers `pong <word>` to the last `#ping <word>#` that it reads, in many pieces. */
export async function startFakeModel(): Promise<FakeModel> {
  const questions: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      const question = [...body.matchAll(/#(ping [\w-]+)#/g)].at(-1)?.[1] ?? "";
      questions.push(question);
      respond(response, question.replace("ping", "pong")).catch((error: unknown) => {
        if (!response.destroyed) throw error;
      });
    });
  });

  async function respond(response: ServerResponse, answer: string): Promise<void> {
    while (model.mode === "hold" && !response.destroyed) await new Promise((resolve) => setTimeout(resolve, 5));
    if (model.mode === "refuse") {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "the fake refuses", type: "invalid_request_error" } }));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const chunk = (choice: object) => {
      const fields = { id: "c1", object: "chat.completion.chunk", created: 1, model: "fake" };
      response.write(
        `data: ${JSON.stringify({ ...fields, choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`,
      );
    };
    for (const piece of answer.match(/.{1,3}/gsu) ?? []) chunk({ delta: { role: "assistant", content: piece } });
    chunk({ delta: {}, finish_reason: "stop" });
    response.end("data: [DONE]\n\n");
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const model: FakeModel = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    questions,
    mode: "answer",
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return model;
}
