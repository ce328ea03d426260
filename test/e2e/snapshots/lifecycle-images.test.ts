// @limit 900
import { readFileSync } from "node:fs";
import * as assert from "uvu/assert";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { BUSYBOX_IMAGE, HELLO_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { lifeSuite, testAtOnce } from "./life-suite.ts";
import { idleProgram } from "./lifecycle.ts";
import { digestScript, fillScript, overlayDirs } from "./stage.ts";

const ONE_BINARY_IMAGE = "localhost/of-one-binary:1";
const SLEEP: NonNullable<WorkloadSpec["entrypoint"]> = { cmd: "/sleep", args: ["36000"] };

const test = lifeSuite("files of every kind, whatever the image", {
  name: "images",
  async prepare({ cluster }) {
    // Under this name it is a sleep and nothing else: no shell, no tar, no folder but the root.
    const content = readFileSync(await findStaticBusybox(() => undefined));
    const image = { name: ONE_BINARY_IMAGE, files: [{ path: "sleep", content, mode: 0o755 }], entrypoint: ["/sleep"] };
    await importImages(cluster.name, [image]);
  },
});

const images = [
  ["that runs as a user", HELLO_IMAGE, idleProgram()],
  ["that runs as root", BUSYBOX_IMAGE, idleProgram()],
  ["with nothing but one static binary", ONE_BINARY_IMAGE, SLEEP],
] as const;

testAtOnce(
  test,
  images.map(([what, image, entrypoint]) => [
    `an image ${what} gets the same tree back, cold and from a pool`,
    async ({ life }) => {
      const workload = `rich-${what.length}`;
      const filesystem = { overlayDirs: [...overlayDirs] };
      await life.createWorkload(workload, { image: { ref: image }, entrypoint, filesystem });
      const first = await life.claim("rich", workload, true);
      await life.run(first.status?.instanceId, fillScript);
      const digest = await life.run(first.status?.instanceId, digestScript);
      await life.release(first);
      const cold = await life.claim("rich", workload, true);
      assert.is(cold.status?.source, "cold+data");
      assert.is(await life.run(cold.status?.instanceId, digestScript), digest);
      await life.release(cold);
      await life.createPool(workload, workload, 1);
      const warm = await life.claim("rich", workload, true);
      assert.is(warm.status?.source, "pool+data");
      assert.is(await life.run(warm.status?.instanceId, digestScript), digest);
      await life.deleteClaim(warm);
    },
  ]),
);

test.run();
