import type { Command } from "../command.ts";
import { instanceOf } from "../instance.ts";
import { numberOf } from "../parse.ts";
import { pourTo } from "../pour.ts";

export const logs: Command = {
  name: "logs",
  summary: "Print the log of an instance",
  words: "<where>",
  least: 1,
  options: {
    follow: { kind: "flag", short: "f", help: "go on with what is written, until the container ends" },
    tail: { kind: "value", value: "LINES", help: "how many last lines to begin with; 200 by default" },
    previous: { kind: "flag", short: "p", help: "the run before the container's last restart" },
  },
  examples: ["logs alice/hello --tail 20 -f"],
  async run(input, { client, io, signal }) {
    const id = await instanceOf(input.words[0], { client, signal });
    const tail = input.value("tail");
    const query = {
      ...(tail !== undefined && { tail: numberOf(tail, "--tail") }),
      ...(input.flag("follow") && { follow: true }),
      ...(input.flag("previous") && { previous: true }),
    };
    await pourTo(io.stdout, await client.send("GET /api/v1/instances/{id}/logs", { path: { id }, query, signal }), {
      signal,
    });
    return 0;
  },
};
