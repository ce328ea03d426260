import * as assert from "uvu/assert";
import { methodRows } from "../../e2b-methods.ts";

/** Notes which methods of the SDK are called, also by its own ones. */
export interface CalledMethods {
  /** @param owner the class for its static methods, or an object for all others of its class */
  follow(name: string, owner: object): void;
  /** Fails with the methods of these classes that the page says work and that were not called. */
  assertAllCalled(...names: readonly string[]): void;
}

export function createCalledMethods(): CalledMethods {
  const called = new Set<string>();

  function note(name: string, holder: object): void {
    for (const [method, { value, ...rest }] of Object.entries(Object.getOwnPropertyDescriptors(holder))) {
      if (typeof value !== "function" || method === "constructor") continue;
      Object.defineProperty(holder, method, {
        ...rest,
        value(this: unknown, ...words: unknown[]) {
          called.add(`${name}.${method}`);
          return value.apply(this, words);
        },
      });
    }
  }

  return {
    follow(name, owner) {
      if (typeof owner !== "function") note(name, Object.getPrototypeOf(owner));
      else for (let own = owner; own.name !== ""; own = Object.getPrototypeOf(own)) note(name, own);
    },
    assertAllCalled(...names) {
      const rows = methodRows();
      for (const name of names) {
        const { works = [] } = rows.get(name) ?? {};
        assert.ok(works.length > 0, name);
        assert.equal(
          works.filter((method) => !called.has(`${name}.${method}`)),
          [],
          name,
        );
      }
    },
  };
}
