import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";

/** The folder for pictures for the documentation; without it none are taken. */
const folder = process.env.TENANCY_SCREENSHOTS;

/** Takes a picture of a page. */
export async function picture(page: Page, name: string): Promise<void> {
  if (folder === undefined) return;
  const path = join(import.meta.dirname, "../..", folder);
  mkdirSync(path, { recursive: true });
  await page.screenshot({ path: join(path, `${name}.png`), caret: "hide" });
}
