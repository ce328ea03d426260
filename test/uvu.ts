// What test files import as `uvu`, by `paths` in tsconfig.json and by import-map.json for Deno: uvu, whose runner says
// nothing of what a hook throws but counts every test of the suite as failed, nor what a text was that `assert.match`
// did not find its pattern in, nor why a `fetch` failed.
import { createRequire } from "node:module";
import { Assertion } from "uvu/assert";
import type { Callback, Test } from "../node_modules/uvu/index.d.ts";
import { tellWhenATestFails } from "./when-a-test-fails.ts";

export type { Callback, Test };

const uvu: typeof import("../node_modules/uvu/index.d.ts") = createRequire(import.meta.url)(
  "../node_modules/uvu/dist/index.js",
);

export function suite<T = Record<string, unknown>>(name?: string, context?: T): Test<T> {
  return showErrors(uvu.suite(name, context));
}

export const test = showErrors(uvu.test);

function showErrors<T>(tests: Test<T>): Test<T> {
  const { before, after, only } = tests;
  return Object.assign(showingActual(tests), tests, {
    only: showingActual(only),
    before: Object.assign(shown("before", before), { each: before.each }),
    after: Object.assign(shown("after", after), { each: shown("after.each", after.each) }),
  });
}

function shown<T>(name: string, register: (hook: Callback<T>) => void): (hook: Callback<T>) => void {
  return (hook) =>
    register(async (context) => {
      try {
        await hook(context);
      } catch (error) {
        console.error(`the ${name} hook failed:`, error);
        throw error;
      }
    });
}

let ending: ReturnType<typeof setInterval> | undefined;

/** Ends a process whose tests are all done and that one of them failed: what that left open would hold it for long. */
function endWithoutWaiting(): void {
  // uvu sets the exit code at its end.
  ending ??= setInterval(() => process.exitCode === 1 && process.exit(), 5000);
  ending.unref();
}

function showingActual<T>(add: (name: string, run: Callback<T>) => void): (name: string, run: Callback<T>) => void {
  return (name, run) =>
    add(name, async (context) => {
      try {
        await run(context);
      } catch (error) {
        if (error instanceof Assertion && error.operator === "match") error.details ||= `Actual: ${error.actual}`;
        // uvu shows the message only, and that of a `fetch` says nothing.
        if (error instanceof Error && error.cause !== undefined) console.error(`why "${name}" failed:`, error.cause);
        endWithoutWaiting();
        for (const tell of tellWhenATestFails) console.error(`when "${name}" failed: ${await tell()}`);
        throw error;
      }
    });
}
