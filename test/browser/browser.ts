import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import * as assert from "uvu/assert";
import { findChromium } from "../../scripts/test/find-chromium.ts";

/** A page in a context of its own, whose complaints fail the test. */
export interface TestPage {
  readonly page: Page;
  /**
   * What the page wrote to its console, threw, was refused by its content policy, or asked of another origin; a test
   * that expects some takes it out.
   */
  readonly complaints: string[];
  /** Asserts that axe finds nothing in the page as it is, https://github.com/dequelabs/axe-core. */
  assertAccessible(): Promise<void>;
  /** Asserts that the page had nothing to complain of, and closes it. */
  close(): Promise<void>;
}

/** What other processes bring is waited for that long. */
const LIMIT_MS = 60_000;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function launchBrowser(): Promise<Browser> {
  const { program, flags, env } = await findChromium({ log: console.log });
  return chromium.launch({
    executablePath: program,
    args: [...flags],
    env: { PATH: process.env.PATH ?? "", HOME: tmpdir(), ...env },
  });
}

/** Opens an empty page of 1280 by 800. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<TestPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(LIMIT_MS);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() !== "debug") complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== "data:" && origin !== new URL(page.url()).origin && page.url() !== "about:blank")
      complaints.push(`asked another origin: ${request.url()}`);
  });
  return {
    page,
    complaints,
    async assertAccessible() {
      // What evaluate runs is not subject to the page's content policy.
      await page.evaluate(axe);
      const { violations } = (await page.evaluate("axe.run()")) as { violations: AxeViolation[] };
      const found = violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${html}\n  ${failureSummary}`),
      );
      assert.equal(found, []);
    },
    async close() {
      await context.close();
      assert.equal(complaints, []);
    },
  };
}

/** Takes out what a browser writes to its console of an answer that the test asked for. */
export function takeOut(complaints: string[], expected: RegExp): void {
  const others = complaints.filter((line) => !expected.test(line));
  complaints.splice(0, complaints.length, ...others);
}

interface AxeViolation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}
