import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { recordProcess } from "../cluster-state.ts";
import { PAUSE_IMAGE } from "../images/local-images.ts";
import { containerdSocket } from "../images.ts";
import { containerdConfig } from "../kubernetes/containerd-config.ts";
import { networkConfig } from "../kubernetes/network-config.ts";
import { logTail } from "../process/log-tail.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";
import type { Slot } from "../slot.ts";
import { inNewMountNamespace } from "./mount-namespace.ts";
import { pluginFolder } from "./required-packages.ts";

const START_LIMIT_MS = 90_000;

/** The longest path that Linux takes for a socket. */
const SOCKET_PATH_LIMIT = 107;

/**
 * Starts a containerd of the cluster's own, in a mount namespace of its own, and waits until it listens.
 *
 * @param folder of the cluster
 * @throws Error with the end of its log when it ends or does not listen
 */
export async function startContainerd(folder: string, slot: Slot): Promise<Program> {
  const socket = containerdSocket(folder);
  if (Buffer.byteLength(socket) > SOCKET_PATH_LIMIT) {
    throw new Error(`Cannot listen on ${socket}: it is longer than 107 bytes; use a shorter name or XDG_CACHE_HOME`);
  }
  const plugins = pluginFolder();
  if (plugins === undefined) throw new Error("Cannot find the CNI plugins; install containernetworking-plugins");
  const home = join(folder, "containerd");
  const networkFolder = join(folder, "network");
  for (const path of [home, networkFolder, join(folder, "run")]) mkdirSync(path, { recursive: true });
  writeFileSync(join(networkFolder, "10-pods.conflist"), networkConfig(slot, networkFolder));
  const configPath = join(home, "config.toml");
  writeFileSync(
    configPath,
    containerdConfig({ folder: home, socket, pauseImage: PAUSE_IMAGE, pluginFolder: plugins, networkFolder }),
  );
  const [command = "", ...rest] = inNewMountNamespace(folder, ["containerd", "-c", configPath]);
  const program = await startProgram({
    name: "containerd",
    command,
    arguments: rest,
    logPath: join(folder, "log", "containerd.log"),
    lifetime: "detached",
  });
  recordProcess(folder, program);
  await waitUntil(
    () => {
      const ending = program.ending();
      if (ending !== undefined) throw new Error(`Cannot start containerd: ${ending}\n${logTail(program.logPath)}`);
      return isListening(socket);
    },
    {
      what: "containerd to listen",
      limitMs: START_LIMIT_MS,
      intervalMs: 20,
      explain: () => logTail(program.logPath),
    },
  );
  return program;
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ECONNREFUSED") resolve(false);
      else reject(error);
    });
  });
}
