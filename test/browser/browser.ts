import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import * as assert from "uvu/assert";
import { findChromium } from "../../scripts/test/find-chromium.ts";
import { tellWhenATestFails } from "../when-a-test-fails.ts";

/** A page in a context of its own, whose complaints fail the test. */
export interface TestPage {
  readonly page: Page;
  /**
   * Warnings and errors in the page's console, what it threw, was refused by its content policy, or asked of another
   * origin, but for what is expected of it. Taken, it is forgotten.
   */
  takeComplaints(): string[];
  /**
   * Says what the page may complain of, before or after: the browser writes to the console of each refused request, also
   * of one whose answer comes after what the test waited for.
   */
  expect(complaint: RegExp): void;
  /**
   * Asserts that axe finds nothing in the page as it is, https://github.com/dequelabs/axe-core.
   *
   * @param rules to look at. @default all
   */
  assertAccessible(rules?: readonly string[]): Promise<void>;
  /** Asserts that the page had nothing to complain of, and closes it. */
  close(): Promise<void>;
}

/** What the browser itself writes to the console of requests without a key, or with a wrong one. */
export const UNAUTHORIZED = /status of 401|WebSocket connection to .* Authentication failed/;
/** What it writes of connections that were cut, at whatever point of a request. */
export const CUT =
  /ERR_(CONNECTION_|EMPTY_RESPONSE|CONTENT_LENGTH_MISMATCH|INCOMPLETE_CHUNKED_ENCODING|TIMED_OUT|SOCKET)|WebSocket connection to/;
/** A name of 127.0.0.1 which, unlike that address, gives a page over HTTP no rights of a secure one. */
export const INSECURE_HOST = "tenancy.test";
/** What other processes bring is waited for that long. */
const LIMIT_MS = 60_000;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** @param wrap returns the program to start in place of the browser's, which starts that one */
export async function launchBrowser(wrap = (program: string) => program): Promise<Browser> {
  const { program, flags, env } = await findChromium({ log: console.log });
  return chromium.launch({
    executablePath: wrap(program),
    args: [...flags, `--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`],
    // Names of files that are not ASCII need a locale that has them.
    env: { PATH: process.env.PATH ?? "", HOME: tmpdir(), LC_ALL: "C.UTF-8", ...env },
  });
}

/** Sums up in `window.shifts` how much a page's layout shifts without a person's act: https://web.dev/articles/cls */
export const COUNT_SHIFTS = `
  window.shifts = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts += one.value;
  }).observe({ type: "layout-shift", buffered: true });
`;

/**
 * Opens an empty page of 1280 by 800. What is then shown in it comes from `edge/dashboard/`, which the runner bundles: by
 * this path a change there selects the tests of pages, since none of them imports it.
 */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<TestPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(LIMIT_MS);
  const page = await context.newPage();
  const said: string[] = [];
  const expected: RegExp[] = [];
  const takeComplaints = () => said.splice(0).filter((words) => !expected.some((pattern) => pattern.test(words)));
  page.on("console", (message) => {
    if (["warning", "error"].includes(message.type())) said.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => said.push(String(error)));
  page.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (protocol !== "data:" && origin !== new URL(page.url()).origin && page.url() !== "about:blank")
      said.push(`asked another origin: ${request.url()}`);
  });
  const tell = async (): Promise<string> => {
    const words = await page.evaluate("document.body.innerText").catch((error: unknown) => `not to be read: ${error}`);
    return `the page was ${page.url()}\n${words}\nit complained of ${JSON.stringify(said)}`;
  };
  tellWhenATestFails.add(tell);
  return {
    page,
    takeComplaints,
    expect: (complaint) => expected.push(complaint),
    async assertAccessible(rules) {
      // What evaluate runs is not subject to the page's content policy.
      await page.evaluate(axe);
      const { violations } = (await page.evaluate(`axe.run(${JSON.stringify(rules ? { runOnly: rules } : {})})`)) as {
        violations: AxeViolation[];
      };
      const found = violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id}: ${html}\n  ${failureSummary}`),
      );
      assert.equal(found, []);
    },
    async close() {
      tellWhenATestFails.delete(tell);
      await context.close();
      assert.equal(takeComplaints(), []);
    },
  };
}

interface AxeViolation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}
