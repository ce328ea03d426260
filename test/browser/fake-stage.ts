import type { Browser } from "playwright-core";
import { dashboardRoutes, loadDashboard } from "../../edge/api/dashboard.ts";
import { createHandler, pathOf } from "../../edge/http/handler.ts";
import { serveNode } from "../../edge/serve/node.ts";
import { type TestEdge, testEdge } from "../unit/edge/test-edge.ts";
import { silentLog } from "../unit/silent-log.ts";
import { launchBrowser } from "./browser.ts";

/** The dashboard before a cluster in memory, for what a real one does not bring about at will. */
export interface FakeStage {
  readonly edge: TestEdge;
  readonly url: string;
  readonly browser: Browser;
  stop(): Promise<void>;
}

export async function startFakeStage(options: Parameters<typeof testEdge>[0] = {}): Promise<FakeStage> {
  const edge = testEdge(options);
  const assets = await loadDashboard(silentLog);
  if (assets === undefined) throw new Error("npm run dashboard has to make the page first");
  const routes = dashboardRoutes(assets, { checkPage: () => undefined });
  const pages = createHandler({ routes, log: silentLog, instance: "pages" });
  const server = await serveNode({
    handler: (request, context) =>
      /^\/($|dashboard|assets\/)/.test(pathOf(request.url)) ? pages(request, context) : edge.handler(request, context),
    listen: { hostname: "127.0.0.1", port: 0 },
    log: silentLog,
  });
  const browser = await launchBrowser();
  return {
    ...{ edge, browser, url: server.url },
    async stop() {
      await browser.close();
      await server.stop({ graceMs: 0 });
    },
  };
}
