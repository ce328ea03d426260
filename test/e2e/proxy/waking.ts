import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import * as assert from "uvu/assert";
import type { Case } from "../../at-once.ts";
import { type FrontDoor, limit, podOf, readAnswer } from "./front-door.ts";
import { upload } from "./node.ts";

async function untilAsleep(door: FrontDoor, tenant: string): Promise<void> {
  await door.until(`tenant ${tenant} to be released`, async () => {
    const claims = JSON.parse(await door.stack.kubectl("get", "tenancyclaims", "-o", "json")) as {
      items: { spec: { tenantId: string } }[];
    };
    return claims.items.every(({ spec }) => spec.tenantId !== tenant);
  });
}

export const sleepAndWake: Case<FrontDoor> = [
  "an upload wakes a tenant and is saved when nobody comes any more, and one GET wakes it with what was saved",
  async (door) => {
    const host = door.host("kept", "dora");
    const body = `of dora ${"x".repeat(100_000)}`;
    const put = await door.send(host, "/files/note", { method: "PUT", body });
    assert.is(put.status, 200, String(put.body));
    const first = await podOf(door, "dora");
    await untilAsleep(door, "dora");
    const got = await door.send(host, "/files/note");
    assert.equal([got.status, String(got.body)], [200, body]);
    assert.is.not((await podOf(door, "dora")).instanceId, first.instanceId);
  },
];

export const killedPod: Case<FrontDoor> = [
  "a pod that is deleted under a download: the client sees a cut, and the next request wakes another",
  async (door) => {
    const host = door.host("kept", "erin");
    const request = door.open(host, "/download?bytes=1000000000");
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    await once(response, "readable");
    const { instanceId } = await podOf(door, "erin");
    const ended = new Promise<Error | undefined>((resolve) => {
      response.once("error", resolve);
      response.once("end", () => resolve(undefined));
    });
    await door.stack.kubectl("delete", "pod", instanceId, "--grace-period=0", "--force");
    response.resume();
    assert.ok(await ended, "the download came to its end");
    const next = await door.send(host, "/who");
    assert.is(next.status, 200, String(next.body));
    assert.is.not((JSON.parse(String(next.body)) as { pod: string }).pod, instanceId);
  },
];

export const wokenByUpload: Case<FrontDoor> = [
  "an upload of many megabytes wakes a tenant and arrives whole",
  (door) => upload(door, door.host("app", "fay"), 64 * 1024 * 1024, true),
];

export const uploadAtRelease: Case<FrontDoor> = [
  "an upload that is under way when its tenant is released comes to its end and is saved",
  async (door) => {
    const host = door.host("kept", "gus");
    const body = "of gus ".repeat(100_000);
    const headers = { expect: "100-continue", "content-length": body.length };
    const isTaken = async () => {
      const put = door.open(host, "/files/late", { method: "PUT", headers });
      put.flushHeaders();
      await once(put, "continue", limit());
      put.write(body.slice(0, 100));
      await door.api("POST", "/tenants/gus/release", { workload: "kept" });
      put.end(body.slice(100));
      const { status } = await readAnswer(put);
      await untilAsleep(door, "gus");
      if (status !== 503) assert.is(status, 200);
      return status === 200;
    };
    // A release waits 15 s, and what comes to its end too late for it is a 503, to be sent again.
    await door.until("an upload to come to its end in time", isTaken);
    const got = await door.send(host, "/files/late");
    assert.equal([got.status, String(got.body)], [200, body]);
  },
];

export const crash: Case<FrontDoor> = [
  "a program that ends under a request is a 502, and its tenant is served again when it has been started anew",
  async (door) => {
    const host = door.host("app", "hugo");
    const pod = async () => {
      const { status, body } = await door.send(host, "/who");
      return status === 200 && (JSON.parse(String(body)) as { pod: string }).pod;
    };
    const before = await pod();
    const answer = await door.send(host, "/crash", { method: "POST" });
    assert.is(answer.status, 502, String(answer.body));
    assert.is(await door.until("the program", pod), before);
  },
];
