import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Change } from "../../../crds/client/watch/informer.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { type Controller, startWatches, watch } from "../../../operator/controller.ts";

const test = suite("startWatches");

test("enqueues what is there and what each map function asks for, for its own controller, until it is ended", () => {
  const handlers = new Set<(change: Change<KubernetesObject>) => void>();
  const informer = {
    subscribe(handler: (change: Change<KubernetesObject>) => void) {
      handler({ type: "added", object: { metadata: { name: "there" } } });
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
  };
  const added: string[] = [];
  const queue = {
    add: (controller: string, key: string, { afterMs = 0 } = {}) => void added.push(`${controller} ${key} ${afterMs}`),
  };
  const reconciler = { priority: 0, concurrency: 1, reconcile: async () => undefined };
  const controllers: Controller<"all" | "deleted">[] = [
    {
      ...reconciler,
      name: "all",
      initial: [{ key: "sweep", afterMs: 1000 }],
      watches: [watch(informer, ({ object }) => [object.metadata.name])],
    },
    {
      ...reconciler,
      name: "deleted",
      watches: [
        watch(informer, ({ type, object }) => (type === "deleted" ? [`owner-of-${object.metadata.name}`] : [])),
      ],
    },
  ];
  const stop = startWatches(controllers, queue);
  for (const handler of handlers) handler({ type: "deleted", object: { metadata: { name: "x" } } });
  assert.equal(added, ["all sweep 1000", "all there 0", "all x 0", "deleted owner-of-x 0"]);
  stop();
  assert.is(handlers.size, 0);
});

test.run();
