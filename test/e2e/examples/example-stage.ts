import * as assert from "uvu/assert";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { undoAll } from "../../../scripts/cluster/process/undo-all.ts";
import { openPage, type TestPage } from "../../browser/browser.ts";
import { launchBrowserApart } from "../../browser/launch-apart.ts";
import { buildExample } from "../build/build-example.ts";
import { type Stack, startStack, WITH_BUILDS } from "../claims/stack.ts";

/** A local cluster on which ann and bob have claimed an example, and a browser that reaches its front door. */
export interface ExampleStage {
  readonly stack: Stack;
  /** Such as `http://127.0.0.1:8081`. */
  readonly frontDoor: string;
  /** Makes a link to ann's instance. */
  createLink(): Promise<string>;
  /** Opens a page that may write no errors and ask no other origin. Slow machines make programs and Chromium warn. */
  open(options?: Parameters<typeof openPage>[1]): Promise<TestPage>;
  stop(): Promise<void>;
}

/** @param workload the name of the example's folder and of its workload */
export async function startExample(workload: string): Promise<ExampleStage> {
  const name = `e2e-${workload}`;
  const port = await freePort();
  const undo: (() => unknown)[] = [() => downLocalCluster({ name })];
  const stop = () => undoAll(undo);
  try {
    const stack = await startStack(name, { ...WITH_BUILDS, TENANCY_PROXY_LISTEN: `127.0.0.1:${port}` });
    undo.push(() => stack.interrupt());
    const browser = await launchBrowserApart([port]);
    undo.push(() => browser.close());
    await buildExample(stack, { cluster: name, example: workload, workload });
    for (const tenant of ["ann", "bob"]) {
      const { status, body } = await stack.claim(tenant, { workload });
      assert.is(status, 201, JSON.stringify(body));
    }
    return {
      ...{ stack, frontDoor: `http://127.0.0.1:${port}`, stop },
      async createLink() {
        const { status, body } = await stack.call("POST", "/tenants/ann/links", { workload });
        assert.is(status, 201, JSON.stringify(body));
        return String(body.url);
      },
      async open(options = {}) {
        const opened = await openPage(browser, options);
        opened.expect(/^warning: /);
        return opened;
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
