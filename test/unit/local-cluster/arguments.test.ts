import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseArguments } from "../../../scripts/cluster/arguments.ts";

for (const [line, expected] of [
  ["up", { command: "up", name: "tenancy", controlPlane: false, simulatedNodes: 0 }],
  [
    "--name a up --control-plane --simulated-nodes=3 --source go-modules",
    { command: "up", name: "a", controlPlane: true, simulatedNodes: 3, source: "go-modules" },
  ],
  [
    "load docker://app:1 --name a",
    { command: "load", name: "a", image: "docker://app:1", controlPlane: false, simulatedNodes: 0 },
  ],
  ["up --help", { command: "help" }],
] as const) {
  test(`parseArguments reads ${line}`, () => assert.equal(parseArguments(line.split(" ")), expected));
}

test("parseArguments asks for help when there is no command", () => {
  assert.equal(parseArguments([]), { command: "help" });
});

for (const [words, message] of [
  [["start"], /Cannot do "start": use one of up, down, status, kubeconfig, load/],
  [["down", "everything"], /Cannot make sense of "everything" after down/],
  [["up", "--force"], /--force/],
  [["load"], /name FILE\.tar, the FOLDER of an OCI layout, or docker:/],
  [["load", "a.tar", "b.tar"], /Cannot make sense of "b\.tar" after load/],
  [["up", "--control-plane", "--simulated-nodes", "many"], /no number between 0 and 1000/],
  [["up", "--simulated-nodes", "3"], /without --control-plane/],
] as const) {
  test(`parseArguments refuses ${words.join(" ")}`, () => {
    assert.throws(() => parseArguments(words), message);
  });
}

test.run();
