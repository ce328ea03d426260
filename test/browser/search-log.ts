import type { Page } from "playwright-core";
import * as assert from "uvu/assert";

/** On the page of an instance whose log begins with `started <b>here</b>` and counts lines: follows and searches it. */
export async function searchLog(page: Page, instance: string): Promise<void> {
  const log = page.getByRole("log", { name: `Log of ${instance}` });
  await log.getByText("started <b>here</b>").waitFor();
  await log.getByText("line 3", { exact: true }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("LINE 2");
  await page.getByText(/^\d+ of \d+ lines, following$/).waitFor();
  await log.getByText("started").waitFor({ state: "detached" });
  assert.match(page.url(), "find=LINE");
}
