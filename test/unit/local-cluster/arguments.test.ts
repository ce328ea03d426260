import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseArguments } from "../../../scripts/cluster/arguments.ts";

test("parseArguments takes the default name when none is given", () => {
  assert.equal(parseArguments(["up"]), { command: "up", name: "tenancy", controlPlane: false, simulatedNodes: 0 });
});

test("parseArguments reads every option, before or after the command", () => {
  assert.equal(
    parseArguments(["--name", "a", "up", "--control-plane", "--simulated-nodes=3", "--source", "go-modules"]),
    {
      command: "up",
      name: "a",
      controlPlane: true,
      simulatedNodes: 3,
      source: "go-modules",
    },
  );
});

test("parseArguments asks for help when there is no command", () => {
  assert.equal(parseArguments([]), { command: "help" });
  assert.equal(parseArguments(["up", "--help"]), { command: "help" });
});

for (const [words, message] of [
  [["start"], /Cannot do "start": use one of up, down, status, kubeconfig/],
  [["down", "everything"], /Cannot make sense of "everything" after down/],
  [["up", "--force"], /--force/],
  [["up", "--control-plane", "--simulated-nodes", "many"], /no number between 0 and 1000/],
  [["up", "--simulated-nodes", "3"], /without --control-plane/],
] as const) {
  test(`parseArguments refuses ${words.join(" ")}`, () => {
    assert.throws(() => parseArguments(words), message);
  });
}

test.run();
