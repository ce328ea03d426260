import type { Test } from "uvu";

export type Case<Context> = readonly [name: string, run: (context: Context) => Promise<void>];

/** Tests that share nothing but the cluster: the first one starts them all, so that what they wait for overlaps. */
export function testAtOnce<Context>(test: Test<Context>, cases: readonly Case<Context>[]): void {
  let running: Promise<void>[] | undefined;
  for (const [index, [name]] of cases.entries()) {
    test(name, async (context) => {
      running ??= cases.map(([, run]) => run(context));
      // Each is waited for by its own test, and fails that; this only keeps it from ending the process before.
      void Promise.allSettled(running);
      await running[index];
    });
  }
}
