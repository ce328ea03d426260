import { FILES_FOLDER } from "../cluster/pod-files.ts";
import type { Scene } from "./scene.ts";

/** One thing that users do, after what it needs is there, until its end is seen. */
export interface Story {
  readonly name: string;
  before(scene: Scene): Promise<void>;
  act(scene: Scene): Promise<void>;
  done(scene: Scene): Promise<void>;
  /** Lines that may differ after a crash. */
  readonly afterCrash?: RegExp;
}

const FILES = { filesystem: { overlayDirs: [FILES_FOLDER], checkpointSeconds: 0 } };
const FENCED = { service: true, network: { access: "restricted", allowlist: ["example.com"], ports: [8080] } };
const IDLE = { ...FILES, idle: { timeoutSeconds: 4 } };
const nothing = async (): Promise<void> => undefined;

async function withFiles(scene: Scene): Promise<void> {
  await scene.workload(FILES);
  await scene.claim();
  await scene.active();
  await scene.write("first");
}

export const STORIES: readonly Story[] = [
  {
    name: "workload",
    before: nothing,
    act: (scene) => scene.workload(FENCED),
    done: (scene) => scene.workloadReady(),
  },
  {
    name: "cold claim",
    async before(scene) {
      await scene.workload(FENCED);
      await scene.workloadReady();
    },
    act: (scene) => scene.claim(),
    done: (scene) => scene.active(),
  },
  {
    name: "pool claim",
    before: (scene) => withPool(scene, 1),
    act: (scene) => scene.claim(),
    async done(scene) {
      await scene.active();
      await scene.poolReady(1);
    },
  },
  {
    name: "claim with resume",
    async before(scene) {
      await withFiles(scene);
      await scene.release();
      await scene.released();
    },
    act: (scene) => scene.claim({ resume: true }),
    done: (scene) => scene.active(),
  },
  {
    name: "pool claim with resume",
    // A pod whose restore was interrupted is replaced by one that is made for the claim.
    afterCrash: /source:? "?(pool|cold)\+data|initContainers\[tenancy-tools\]/,
    async before(scene) {
      await withFiles(scene);
      await scene.release();
      await scene.released();
      await scene.pool(1);
      await scene.poolReady(1);
    },
    act: (scene) => scene.claim({ resume: true }),
    async done(scene) {
      await scene.active();
      await scene.poolReady(1);
    },
  },
  {
    name: "release with files",
    before: withFiles,
    act: (scene) => scene.release(),
    done: (scene) => scene.released(),
  },
  {
    name: "idle release",
    async before(scene) {
      await scene.workload(IDLE);
      await scene.workloadReady();
    },
    async act(scene) {
      await scene.claim();
      await scene.active();
      await scene.write("idle");
    },
    done: (scene) => scene.released(),
  },
  {
    name: "workload changed",
    before: (scene) => withPool(scene, 2),
    act: (scene) => scene.workload({ ...FILES, entrypoint: { env: { VERSION: "2" } } }),
    done: (scene) => scene.poolReady(2),
  },
  {
    name: "pool scaled up",
    before: (scene) => withPool(scene, 1),
    act: (scene) => scene.pool(3),
    done: (scene) => scene.poolReady(3),
  },
  {
    name: "pool scaled down",
    before: (scene) => withPool(scene, 3),
    act: (scene) => scene.pool(1),
    done: (scene) => scene.poolReady(1),
  },
  {
    name: "pool and workload deleted",
    before: (scene) => withPool(scene, 1),
    async act(scene) {
      await scene.deletePool();
      await scene.deleteWorkload();
    },
    done: (scene) => scene.clear(),
  },
];

async function withPool(scene: Scene, size: number): Promise<void> {
  await scene.workload(FILES);
  await scene.pool(size);
  await scene.poolReady(size);
}
