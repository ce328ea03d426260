// @runtimes bun
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { list } from "tar";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parse } from "yaml";
import { triggerProblems } from "../../../crds/schema/validate-trigger.ts";
import { workloadProblems } from "../../../crds/schema/validate-workload.ts";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { busyboxFiles } from "../../../scripts/cluster/images/busybox.ts";
import { type Image, imageArchive } from "../../../scripts/cluster/images/image-archive.ts";
import { exampleImages, localImages } from "../../../scripts/cluster/images/local-images.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";
import { confirm, payload } from "./driver-call.ts";

const test = suite("examples of containers");
const examples = join(import.meta.dirname, "..", "..", "..", "manifests", "examples");
const busybox = await busyboxFiles(staticBusybox);
const images = new Map(exampleImages(busybox).map((image) => [image.name, image]));

interface Running {
  readonly port: number;
  stop(): Promise<void>;
}

/** Runs an image's program on loopback, with the image's files and no others on its path. */
async function run(image: Image): Promise<Running> {
  const root = mkdtempSync(join(tmpdir(), "tenancy-example-"));
  for (const { path, content, linkTo, mode } of image.files) {
    const place = join(root, path);
    if (linkTo !== undefined) symlinkSync(linkTo, place);
    else if (content === undefined) mkdirSync(place, { recursive: true });
    else writeFileSync(place, content, { mode: mode ?? 0o644 });
  }
  const port = await freePort();
  const [program = "", ...rest] = (image.entrypoint ?? []).map((path) => join(root, path));
  const child = spawn(join(root, "bin", "sh"), [program, ...rest], {
    env: { PATH: join(root, "bin"), PORT: String(port), WWW: join(root, "www") },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  while (!(await accepts(port))) await new Promise((resolve) => setTimeout(resolve, 5));
  return {
    port,
    async stop() {
      child.kill("SIGTERM");
      assert.is(await ended, 0);
      rmSync(root, { recursive: true });
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

function read(name: string): { kind: string; metadata: { name: string }; spec: Record<string, unknown> } {
  return parse(readFileSync(join(examples, name), "utf8"));
}

const texts = [
  "hi",
  'a "quoted" \\ path\n\ttab \u0001',
  "grüße 🙂 % %s $HOME `id` $(id) ' \\n",
  "x".repeat(70_000),
  "",
];

for (const name of ["echo-http", "echo-agent-bridge", "echo-agent-control"]) {
  test(`${name}: its manifests are valid, and fit each other`, () => {
    const workload = read(`${name}-workload.yaml`);
    const trigger = read(`${name}-trigger.yaml`);
    assert.equal(workloadProblems(workload.spec), []);
    assert.equal(triggerProblems(trigger.spec), []);
    assert.is(trigger.spec.workloadRef, workload.metadata.name);
    assert.ok(images.has((workload.spec.image as { ref: string }).ref));
  });

  test(`${name}: its program answers the gateway and the health probe, and ends when it is told to`, async () => {
    const workload = read(`${name}-workload.yaml`);
    const spec = read(`${name}-trigger.yaml`).spec as TriggerSpec;
    const image = images.get((workload.spec.image as { ref: string }).ref);
    assert.ok(image);
    const { port, stop } = await run(image);
    try {
      const { path } = (workload.spec.health as { httpGet: { path: string } }).httpGet;
      assert.is((await fetch(`http://127.0.0.1:${port}${path}`)).status, 200);
      const drive = driverFor(spec);
      const ask = async (text: string) => {
        const event = { ...payload, text };
        const { signal } = new AbortController();
        const endpoint = { host: "127.0.0.1", port };
        const reply = await drive({ payload: event, endpoint, options: spec.driverOptions, signal, confirm });
        if (spec.driver === undefined) assert.equal(JSON.parse(reply.text), event);
        else assert.is(reply.text, `echo: ${text}`);
      };
      for (const text of texts) await ask(text);
      await Promise.all(["a", "b", "c"].map(ask));
    } finally {
      await stop();
    }
  });
}

test("the program in docs/reference/drivers.md answers the gateway", async () => {
  const root = join(examples, "..", "..");
  const program = /^```js\n([\s\S]*?)^```$/m.exec(readFileSync(join(root, "docs/reference/drivers.md"), "utf8"))?.[1];
  assert.ok(program);
  const port = await freePort();
  const think = "async function* think(text) { yield 'echo: '; yield text; }";
  const child = spawn(
    process.execPath,
    ["--input-type=module", "--eval", program.replace("8080", String(port)) + think],
    { cwd: root, stdio: ["ignore", "ignore", "inherit"] },
  );
  try {
    while (!(await accepts(port))) await new Promise((resolve) => setTimeout(resolve, 5));
    const reply = await driverFor({ driver: "driver-a" })({
      payload: { ...payload, text: "hi 🙂" },
      endpoint: { host: "127.0.0.1", port },
      options: undefined,
      signal: new AbortController().signal,
      confirm,
    });
    assert.is(reply.text, "echo: hi 🙂");
  } finally {
    child.kill();
  }
});

test("the images are among those that the local cluster gets, are small, and hold every program", () => {
  const names = localImages(busybox).map(({ name }) => name);
  const held = new Set<string>();
  for (const image of images.values()) {
    assert.ok(names.includes(image.name));
    assert.is(image.user, "65532:65532");
    assert.ok(imageArchive([image]).length < 4 * 1024 * 1024);
    for (const { content } of image.files) if (content !== undefined) held.add(Buffer.from(content).toString("base64"));
  }
  for (const program of readdirSync(join(examples, "agents"))) {
    assert.ok(held.has(readFileSync(join(examples, "agents", program)).toString("base64")), program);
  }
  const paths: string[] = [];
  const parser = list({ sync: true, strict: true, onReadEntry: ({ path }) => void paths.push(path) });
  parser.end(imageArchive([...images.values()]));
  assert.ok(paths.includes("index.json"));
});

test.run();
