import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";

/** A Gateway of OpenClaw on loopback. */
export interface OpenClaw {
  readonly port: number;
  /** Waits until it takes connections, ready or not. */
  listening(): Promise<void>;
  /** Waits until it says that it is ready. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts the real Gateway, with all its state in a folder of its own, and no reason to leave loopback.
 *
 * @param options.folder where `npm install openclaw` and a Node that is new enough for it were installed
 * @param options.auth of its configuration, `gateway.auth`
 * @param options.modelUrl base address of a server that speaks the OpenAI chat API
 */
export async function startOpenClaw(options: { folder: string; auth: object; modelUrl: string }): Promise<OpenClaw> {
  const { folder, auth, modelUrl } = options;
  const home = mkdtempSync(join(tmpdir(), "tenancy-openclaw-"));
  const port = await freePort();
  const config = join(home, "openclaw.json");
  mkdirSync(join(home, "state"));
  writeFileSync(config, JSON.stringify(configuration({ port, auth, modelUrl, workspace: join(home, "workspace") })));
  const modules = join(folder, "node_modules");
  const child = spawn(join(modules, ".bin", "node"), [join(modules, "openclaw", "openclaw.mjs"), "gateway", "run"], {
    cwd: home,
    env: {
      PATH: process.env.PATH,
      HOME: home,
      TMPDIR: home,
      OPENCLAW_STATE_DIR: join(home, "state"),
      OPENCLAW_CONFIG_PATH: config,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let hasEnded = false;
  const ended = new Promise<void>((resolve) =>
    child.on("exit", () => {
      hasEnded = true;
      resolve();
    }),
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));

  async function probe(path: string): Promise<void> {
    for (;;) {
      if (hasEnded) throw new Error(`OpenClaw has ended: ${output.slice(-4000)}`);
      const response = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined);
      await response?.body?.cancel();
      if (response?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  return {
    port,
    listening: () => probe("/healthz"),
    ready: () => probe("/readyz"),
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
      await ended;
      clearTimeout(timer);
      rmSync(home, { recursive: true, force: true });
    },
  };
}

function configuration({ port, auth, modelUrl, workspace }: Record<string, unknown>): object {
  const model = {
    id: "fake",
    name: "Fake",
    reasoning: false,
    input: ["text"],
    cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
    contextWindow: 128_000,
    maxTokens: 4096,
  };
  return {
    gateway: {
      mode: "local",
      bind: "loopback",
      port,
      auth,
      trustedProxies: ["127.0.0.1/32"],
      controlUi: { enabled: false },
    },
    discovery: { mdns: { mode: "off" } },
    update: { checkOnStart: false },
    agents: { defaults: { model: { primary: "local/fake" }, workspace, skipBootstrap: true } },
    models: {
      mode: "merge",
      catalogRefresh: { enabled: false },
      providers: { local: { baseUrl: modelUrl, apiKey: "none", api: "openai-completions", models: [model] } },
    },
  };
}
