// An agent that has a computer of its own: it writes files and runs commands in a sandbox until its task is done.
//
// ANTHROPIC_API_KEY is the key of the model; E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL are those of the sandboxes.
import Anthropic from "@anthropic-ai/sdk";
import { CommandExitError, Sandbox } from "e2b";

const MODEL = "claude-sonnet-5-5";
const SYSTEM = `You have a Linux computer. Use the tools to do what you are asked, check the result, and then answer in
one sentence.`;
const TASK = process.argv[2] ?? "Write the first ten prime numbers into the file primes.txt, and tell me their sum.";

const pathSchema = { type: "string", description: "Relative paths begin in the home folder." };
const tools: Anthropic.Tool[] = [
  {
    name: "run_command",
    description: "Runs a command in a shell. Returns its output and its exit code.",
    input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  },
  {
    name: "write_file",
    description: "Writes a text file, and the folders above it.",
    input_schema: {
      type: "object",
      properties: { path: pathSchema, content: { type: "string" } },
      required: ["path", "content"],
    },
  },
  {
    name: "read_file",
    description: "Returns the content of a text file.",
    input_schema: { type: "object", properties: { path: pathSchema }, required: ["path"] },
  },
];

async function useTool(sandbox: Sandbox, name: string, input: Record<string, string>): Promise<string> {
  const { command = "", path = "", content = "" } = input;
  switch (name) {
    case "run_command": {
      const { exitCode, stdout, stderr } = await sandbox.commands.run(command).catch((error: unknown) => {
        if (error instanceof CommandExitError) return error;
        throw error;
      });
      return JSON.stringify({ exitCode, stdout, stderr });
    }
    case "write_file":
      await sandbox.files.write(path, content);
      return "written";
    case "read_file":
      return await sandbox.files.read(path);
    default:
      throw new Error(`there is no tool ${name}`);
  }
}

/** The result of a tool, or why it failed, which the model can read too. */
async function resultOf(sandbox: Sandbox, { id, name, input }: Anthropic.ToolUseBlock) {
  console.log(`${name} ${JSON.stringify(input)}`);
  const result = { type: "tool_result", tool_use_id: id } as const;
  try {
    return { ...result, content: await useTool(sandbox, name, input as Record<string, string>) };
  } catch (error) {
    return { ...result, content: String(error), is_error: true };
  }
}

const anthropic = new Anthropic();
const sandbox = await Sandbox.create();
try {
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: TASK }];
  for (;;) {
    const answer = await anthropic.messages.create({ model: MODEL, max_tokens: 4096, system: SYSTEM, tools, messages });
    messages.push({ role: "assistant", content: answer.content });
    const results: Anthropic.ToolResultBlockParam[] = [];
    for (const block of answer.content) {
      if (block.type === "text") console.log(block.text);
      if (block.type === "tool_use") results.push(await resultOf(sandbox, block));
    }
    if (answer.stop_reason !== "tool_use") break;
    messages.push({ role: "user", content: results });
  }
} finally {
  await sandbox.kill();
}
