import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { systemClock } from "../../crds/client/clock.ts";
import { eventually } from "../eventually.ts";
import { insideExec } from "../unit/edge/inside/inside-exec.ts";
import { untilCommandsEnd } from "../unit/snapshots/local-exec.ts";
import { openPage, type TestPage } from "./browser.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";

/** The dashboard, and an instance whose program is the real one on this machine. */
export interface InsideStage extends FakeStage {
  /** A folder that tests and the instance share. */
  readonly folder: string;
  /** Address of a page of the instance. */
  at(path: string): string;
}

export const INSTANCE = "inst-a";

/** Starts one for a file of tests. */
export async function startInsideStage(options: { apiKey?: string } = {}): Promise<InsideStage> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-inside-"));
  const stage = await startFakeStage({ ...options, clock: systemClock, exec: await insideExec() });
  const { cluster, channels } = stage.edge;
  cluster.addWorkload("app");
  cluster.addInstance(INSTANCE);
  return {
    ...stage,
    folder,
    at: (path) => `${stage.url}/dashboard/instances/${INSTANCE}${path}`,
    async stop() {
      await stage.stop();
      await channels.close();
      await untilCommandsEnd();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Opens a terminal, and waits for its shell's prompt. */
export async function openTerminal(
  stage: InsideStage,
  options: Parameters<typeof openPage>[1] = {},
): Promise<TestPage> {
  const opened = await openPage(stage.browser, options);
  await opened.page.goto(stage.at("/terminal"));
  await untilOpen(opened.page);
  await opened.page.locator(".screen").click();
  return opened;
}

export async function untilOpen(page: Page): Promise<void> {
  await page.getByRole("status").getByText("Connected to process").waitFor();
  await untilPrompt(page);
}

/**
 * Waits for the prompt of the shell: what is typed before it, or soon after an interrupt, can be lost. Before an
 * interrupt, wait for what was typed: the prompt before it is none.
 */
export async function untilPrompt(page: Page): Promise<void> {
  await eventually(async () => /[#$]$/.test((await linesOf(page)).findLast((line) => line !== "") ?? ""));
}

/** Waits until a line of the screen is this text. */
export async function untilLine(page: Page, line: string): Promise<void> {
  await eventually(async () => (await linesOf(page)).includes(line));
}

export async function linesOf(page: Page): Promise<string[]> {
  const lines = await page.locator(".xterm-rows > div").allTextContents();
  return lines.map((one) => one.replaceAll("\u00a0", " ").trimEnd());
}

/** Types a line into what has the focus. */
export async function typeLine(page: Page, line: string): Promise<void> {
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
}
