"""An agent that analyses data: it runs Python in the code interpreter of a sandbox, and saves the charts that it draws.

ANTHROPIC_API_KEY is the key of the model; E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL are those of the sandboxes.
"""

import base64
import sys

from anthropic import Anthropic
from e2b_code_interpreter import Sandbox

MODEL = "claude-sonnet-5-5"
SYSTEM = """You are a data scientist. Run Python to answer the question. Variables stay from one call to the next.
Show charts with matplotlib; "[chart]" in a result stands for one."""
QUESTION = "How are the heights of adults distributed? Draw 1000 samples, and show a histogram."
TOOLS = [
    {
        "name": "execute_python",
        "description": "Runs Python in a cell of a notebook. Returns what it prints, its result, or its error.",
        "input_schema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    }
]

charts = 0


def execute_python(sandbox, code):
    global charts
    execution = sandbox.run_code(code)
    parts = [*execution.logs.stdout, *execution.logs.stderr]
    for result in execution.results:
        if result.png:
            charts += 1
            with open(f"chart-{charts}.png", "wb") as file:
                file.write(base64.b64decode(result.png))
            parts.append("[chart]")
        elif result.text:
            parts.append(result.text)
    if execution.error:
        parts.append(execution.error.traceback)
    return "\n".join(parts), execution.error is not None


def main(question):
    client = Anthropic()
    messages = [{"role": "user", "content": question}]
    with Sandbox.create() as sandbox:
        while True:
            answer = client.messages.create(
                model=MODEL, max_tokens=4096, system=SYSTEM, tools=TOOLS, messages=messages
            )
            messages.append({"role": "assistant", "content": answer.content})
            results = []
            for block in answer.content:
                if block.type == "text":
                    print(block.text)
                elif block.type == "tool_use":
                    print(block.input["code"])
                    content, is_error = execute_python(sandbox, block.input["code"])
                    results.append(
                        {"type": "tool_result", "tool_use_id": block.id, "content": content, "is_error": is_error}
                    )
            if answer.stop_reason != "tool_use":
                return
            messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else QUESTION)
