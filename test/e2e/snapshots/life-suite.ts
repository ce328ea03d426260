import { suite, type Test } from "uvu";
import { createFaults, type Faults } from "./faults.ts";
import { type Lifecycle, type LifecycleOptions, startLifecycle } from "./lifecycle.ts";

export interface LifeContext {
  life: Lifecycle;
  faults: Faults;
}

/**
 * A suite on a cluster of its own, with one operator; with `TENANCY_TEST_STORE=s3` over object storage.
 *
 * @param options.name tells the cluster from those of the other files
 * @param options.prepare makes what all its tests need
 */
export function lifeSuite(
  title: string,
  { name, prepare, ...options }: LifecycleOptions & { name: string; prepare?: (life: Lifecycle) => Promise<void> },
): Test<LifeContext> {
  const test = suite<LifeContext>(title);
  test.before(async (context) => {
    const life = await startLifecycle(`e2e-${name}-${process.pid}`, options);
    Object.assign(context, { life, faults: createFaults(life) });
    await life.startOperator();
    await prepare?.(life);
  });
  test.after(async ({ life, faults }) => {
    await faults.thawHelper();
    await life.down();
  });
  return test;
}

/** A workload whose claims start cold, and one with a pool of two. */
export async function coldAndWarm(life: Lifecycle): Promise<void> {
  const resources = { vcpus: 1, memoryMb: 64, diskGb: 1 };
  await life.createWorkload("cold", { resources });
  await life.createWorkload("warm", { resources });
  await life.createPool("warm", "warm", 2);
}
