import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { recordProcess } from "../cluster-state.ts";
import { PAUSE_IMAGE } from "../images/local-images.ts";
import { containerdSocket } from "../images.ts";
import { logTail } from "../process/log-tail.ts";
import { type ProcessIdentity, readProcessIdentity } from "../process/process-identity.ts";
import { readIfThere } from "../process/read-if-there.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { stopProcess } from "../process/stop-process.ts";
import { pause, waitUntil } from "../process/wait-until.ts";
import type { Slot } from "../slot.ts";
import { inNewMountNamespace } from "./mount-namespace.ts";
import { pluginFolder } from "./required-packages.ts";

const START_LIMIT_MS = 90_000;
const NETWORK = "pods";

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
  for (const path of [home, networkFolder, registriesFolder(folder), join(folder, "run")])
    mkdirSync(path, { recursive: true });
  writeFileSync(join(networkFolder, "10-pods.conflist"), networkConfig(slot, networkFolder));
  const configPath = join(home, "config.toml");
  writeFileSync(
    configPath,
    containerdConfig({
      ...{ folder: home, socket, pauseImage: PAUSE_IMAGE, pluginFolder: plugins, networkFolder },
      registriesFolder: registriesFolder(folder),
    }),
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

/** Returns the folder that tells a cluster's containerd how registries are reached. */
export function registriesFolder(folder: string): string {
  return join(folder, "registries");
}

/** Returns the folder in which the network plugin of a cluster notes which addresses pods have, a file each. */
export function addressesFolder(folder: string): string {
  return join(folder, "network", "addresses", NETWORK);
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

interface ContainerdConfigOptions {
  folder: string;
  socket: string;
  pauseImage: string;
  /** Folder of the CNI plugins' programs. */
  pluginFolder: string;
  /** Folder of the network's configuration. */
  networkFolder: string;
  /** Folder with what registries are reached by, which is read at each pull. */
  registriesFolder: string;
}

/** Returns the configuration of a containerd that shares nothing with another one on the machine. */
function containerdConfig(options: ContainerdConfigOptions): string {
  return `version = 2
root = "${options.folder}/root"
state = "${options.folder}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]

[grpc]
  address = "${options.socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${options.pauseImage}"
  # A machine that withholds CAP_SYS_RESOURCE cannot start a sandbox otherwise.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${options.pluginFolder}"
    conf_dir = "${options.networkFolder}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "${options.registriesFolder}"
`;
}

/**
 * Returns the CNI configuration of a cluster's pods: they reach each other and the bridge's address, and nothing
 * beyond. The plugin is not told that the bridge is a gateway, since it would then switch on the machine's forwarding.
 */
function networkConfig(slot: Slot, folder: string): string {
  return JSON.stringify({
    cniVersion: "0.4.0",
    name: NETWORK,
    plugins: [
      {
        type: "bridge",
        bridge: slot.bridge,
        isGateway: false,
        ipMasq: false,
        ipam: {
          type: "host-local",
          dataDir: join(folder, "addresses"),
          ranges: [[{ subnet: `${slot.podNetwork}.0/24`, rangeStart: `${slot.podNetwork}.2`, gateway: slot.address }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
      { type: "loopback" },
    ],
  });
}

const GRACE_MS = 5000;

/**
 * Waits until the shims of a containerd have ended, as each does once its container has, and ends those that have not.
 *
 * @param socket path of the socket of their containerd, which is on the command line of each
 */
export async function stopShims(socket: string): Promise<void> {
  const end = performance.now() + GRACE_MS;
  while (findShims(socket).length > 0 && performance.now() < end) await pause(20);
  for (const shim of findShims(socket)) await stopProcess(shim, { name: "containerd-shim", graceMs: 0 });
}

function findShims(socket: string): ProcessIdentity[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((entry) => {
      const identity = readProcessIdentity(Number(entry));
      const words = readIfThere(`/proc/${entry}/cmdline`)?.split("\0") ?? [];
      const isShim = words[0]?.includes("containerd-shim") && words.includes(socket);
      return identity !== undefined && isShim ? [identity] : [];
    });
}
