import { test } from "uvu";
import * as assert from "uvu/assert";
import { type ClaimInputs, differingInputs, inputProblems } from "../../../crds/claims/claim-inputs.ts";

const base64 = (text: string) => Buffer.from(text).toString("base64");

const same: [title: string, a: ClaimInputs | undefined, b: ClaimInputs | undefined][] = [
  ["nothing, and empty parts", undefined, { env: {}, files: [] }],
  ["another order", { env: { A: "1", B: "2" } }, { env: { B: "2", A: "1" } }],
  ["text and its bytes", { files: [{ path: "/a", content: "ü" }] }, { files: [{ path: "/a", base64: base64("ü") }] }],
  [
    "bits of base64 that count for nothing",
    { files: [{ path: "/a", base64: "QR==" }] },
    { files: [{ path: "/a", content: "A" }] },
  ],
  [
    "the mode that is the default",
    { files: [{ path: "/a", content: "", mode: "600" }] },
    { files: [{ path: "/a", content: "" }] },
  ],
  ["what the API server keeps of half a character", { env: { A: "\ud800" } }, { env: { A: "\ufffd" } }],
];
for (const [title, a, b] of same)
  test(`differingInputs finds no difference: ${title}`, () => assert.equal(differingInputs(a, b), []));

test("differingInputs names variables, files and the Secret that differ, and no value", () => {
  const a = {
    env: { A: "1", B: "2" },
    secretRef: { name: "one" },
    files: [
      { path: "/a", secretRef: { name: "s", key: "k" } },
      { path: "/b", content: "x" },
      { path: "/c", content: "x" },
    ],
  };
  const b = {
    env: { A: "1", B: "3", C: "4" },
    files: [
      { path: "/a", configMapRef: { name: "s", key: "k" } },
      { path: "/b", content: "x", mode: "0640" },
      { path: "/c", content: "x" },
    ],
  };
  assert.equal(differingInputs(a, b), ["env.B", "env.C", "files./a", "files./b", "secretRef"]);
});

test("inputProblems: variables of more than 64 KiB", () => {
  // Each has a name of one byte, `=` and a zero byte.
  const env = { A: "x".repeat(32768 - 3), B: "x".repeat(32768 - 3) };
  assert.equal(inputProblems({ env }, "body"), []);
  assert.match(inputProblems({ env: { ...env, C: "" } }, "body")[0] ?? "", /^body.env: the variables have 65539 bytes/);
});

test.run();
