// @limit 1800
import { suite } from "uvu";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { testAtOnce } from "../../at-once.ts";
import { clusterOfFile } from "../cluster-of-file.ts";
import { type FrontDoor, startFrontDoor } from "./front-door.ts";
import { events, manyMegabytes, otherHandshakes, sideBySide, slowReaders, trailers, webSockets } from "./node.ts";
import { sandboxes } from "./sandboxes.ts";
import { secrets } from "./secrets.ts";
import { oldClientWithoutHost, redirects, staticSite, staticUploads } from "./static-site.ts";
import { crash, killedPod, sleepAndWake, uploadAtRelease, wokenByUpload } from "./waking.ts";
import { oldProgram, wsgi } from "./wsgi.ts";

const test = suite<FrontDoor>("real programs behind the front door");

test.before(async (context) => {
  await installDebianPackages(["curl"], () => undefined);
  Object.assign(context, await startFrontDoor(clusterOfFile("e2e-front-door")));
});

testAtOnce(test, [
  ...[staticSite, staticUploads, redirects, oldClientWithoutHost, wsgi, oldProgram],
  ...[events, trailers, webSockets, otherHandshakes, sideBySide, slowReaders, manyMegabytes],
  ...[secrets, sandboxes, sleepAndWake, killedPod, wokenByUpload, uploadAtRelease, crash],
]);

test.after(async (door) => {
  await door.stop?.();
});

test.run();
