// What test files import as `uvu`, by `paths` in tsconfig.json and by import-map.json for Deno: uvu, whose runner says nothing of what
// a hook throws but counts every test of the suite as failed.
import { createRequire } from "node:module";
import type { Callback, Test } from "../node_modules/uvu/index.d.ts";

export type { Callback, Test };

const uvu: typeof import("../node_modules/uvu/index.d.ts") = createRequire(import.meta.url)(
  "../node_modules/uvu/dist/index.js",
);

export function suite<T = Record<string, unknown>>(name?: string, context?: T): Test<T> {
  return showHookErrors(uvu.suite(name, context));
}

export const test = showHookErrors(uvu.test);

function showHookErrors<T>(tests: Test<T>): Test<T> {
  const { before, after } = tests;
  return Object.assign(tests, {
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
