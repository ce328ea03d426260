// @runtimes node bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Command, UsageError } from "../../../edge/cli/command.ts";
import { commands } from "../../../edge/cli/commands.ts";
import { helpText } from "../../../edge/cli/help.ts";
import { pairOf, parseCommandLine, secondsOf } from "../../../edge/cli/parse.ts";
import { claimKeyOf, whereOf } from "../../../edge/cli/where.ts";

const test = suite("the command line of tenancy");

const run = async () => 0;
const table: Command[] = [
  {
    ...{ name: "exec", summary: "Run", words: "<where>", least: 1, takesCommand: true, examples: [], run },
    options: {
      tty: { kind: "flag", short: "t", help: "" },
      stdin: { kind: "flag", short: "i", help: "" },
      env: { kind: "values", short: "e", value: "A=B", help: "" },
    },
  },
  {
    ...{ name: "claim", summary: "Claim", words: "<tenant> <workload>", least: 1, most: 2, examples: [], run },
    options: { resume: { kind: "optional", value: "VERSION", help: "" } },
  },
  { name: "files ls", summary: "List", words: "<where> [path]", least: 1, most: 2, examples: [], run },
  { name: "files cat", summary: "Print", words: "<where> <path>", least: 2, examples: [], run },
];
const parse = (...argv: string[]) => {
  const parsed = parseCommandLine(argv, table);
  assert.is(parsed.kind, "command", JSON.stringify(parsed));
  return parsed as Extract<typeof parsed, { kind: "command" }>;
};
const refused = (...argv: string[]): string => {
  try {
    parseCommandLine(argv, table);
  } catch (error) {
    assert.instance(error, UsageError);
    return (error as Error).message;
  }
  return `${argv.join(" ")} was accepted`;
};

test("options stand before and after the command, short ones together", () => {
  const { command, input } = parse(
    "--url",
    "http://a",
    "exec",
    "-it",
    "-e",
    "A=1",
    "x/y",
    "--env=B=2",
    "--",
    "ls",
    "-la",
    "--",
  );
  assert.is(command.name, "exec");
  assert.equal([input.words, input.command], [["x/y"], ["ls", "-la", "--"]]);
  assert.equal([input.flag("tty"), input.flag("stdin"), input.flag("help")], [true, true, false]);
  assert.equal([input.values("env"), input.value("url")], [["A=1", "B=2"], "http://a"]);
  assert.is(parse("-o", "json", "files", "ls", "x/y").input.value("output"), "json");
  assert.is(parse("files", "ls", "x/y", "-ojson").input.value("output"), "json");
});

test("a command without options of its own needs no --", () => {
  assert.equal(parse("exec", "x/y", "ls", "/").input.command, ["ls", "/"]);
  assert.match(refused("exec", "x/y", "ls", "-l"), "write -- before the command");
  assert.match(refused("exec", "x/y"), "without a command");
});

test("an option with an optional value never takes the next word", () => {
  assert.equal(parse("claim", "a", "b", "--resume").input.value("resume"), "");
  assert.equal(parse("claim", "--resume", "a/b").input.words, ["a/b"]);
  assert.equal(parse("claim", "a/b", "--resume=v1").input.value("resume"), "v1");
  assert.is(parse("claim", "a/b").input.value("resume"), undefined);
});

test("a mistake says what to write", () => {
  assert.match(refused("flies", "ls"), "tenancy help");
  assert.match(refused("files", "rm"), "one of ls, cat");
  assert.match(refused("files", "cat", "x/y"), "write tenancy files cat <where> <path>");
  assert.match(refused("files", "cat", "x/y", "a", "b"), "with 3 arguments");
  assert.match(refused("claim", "a/b", "--resum"), "Cannot use --resum: see tenancy claim --help");
  assert.match(refused("files", "ls", "x/y", "-o", "xml"), "one of table, json, yaml, name");
  assert.match(refused("files", "ls", "x/y", "-o"), "without a value");
  assert.match(refused("exec", "--tty=1", "x/y", "ls"), "takes no value");
});

test("help is asked for in four ways", () => {
  for (const argv of [
    ["files", "ls", "--help"],
    ["files", "ls", "-h"],
    ["help", "files", "ls"],
  ])
    assert.equal(parseCommandLine(argv, table), { kind: "help", of: "files ls" });
  for (const argv of [["files"], ["files", "--help"], ["help", "files"]])
    assert.equal(parseCommandLine(argv, table), { kind: "help", of: "files" });
  for (const argv of [[], ["help"], ["--help"]]) assert.equal(parseCommandLine(argv, table), { kind: "help", of: "" });
});

test("every command has a help with an example that is a command line of it", () => {
  for (const command of commands) {
    assert.ok(command.examples.length > 0, command.name);
    assert.match(helpText(command.name, commands), `usage: tenancy ${command.name}`);
    for (const example of command.examples) {
      const [, line = ""] = /(?:^|tenancy )([^|>]+?)(?: [|>].*)?$/.exec(example.replace(/^.*tenancy /, "")) ?? [];
      const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
      const parsed = parseCommandLine(words, commands);
      assert.is(parsed.kind === "command" && parsed.command.name, command.name, example);
    }
  }
});

test("times, pairs and places", () => {
  assert.equal(
    ["90", "90s", "30m", "2h", "7d"].map((text) => secondsOf(text, "-x")),
    [90, 90, 1800, 7200, 604_800],
  );
  for (const text of ["", "1.5h", "-1", "2 h", "1w"]) assert.throws(() => secondsOf(text, "--expires"), "--expires");
  assert.equal(pairOf("A=b=c", "--env"), ["A", "b=c"]);
  assert.throws(() => pairOf("=b", "--env"), "NAME=VALUE");
  assert.equal(whereOf("inst-a-1"), "inst-a-1");
  assert.equal(whereOf("a.b/c"), { tenant: "a.b", workload: "c" });
  assert.equal(claimKeyOf(["a", "b"]), { tenant: "a", workload: "b" });
  for (const text of ["a/", "/b", "a/b/c", "", "A B"]) assert.throws(() => whereOf(text), "tenant/workload");
});

test.run();
