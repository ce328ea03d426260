import type { KubernetesObject } from "../../kubernetes.ts";
import type { Log } from "../../log.ts";
import { keyOf } from "./store.ts";

/** An object whose handler failed, and the plural of its resource. */
export interface HandlerFailure {
  readonly object: KubernetesObject;
  readonly resource: string;
  /** The handler that threw: `onChange`, `transform`, or the name of an index or an event handler. */
  readonly handler: string;
}

/** Reports the error of one object, so that the caller can continue with the next one. */
export type ReportHandlerFailure = (error: unknown, failure: HandlerFailure) => void;

/** Creates a report that counts each failure, and logs it once for each handler and revision of an object. */
export function createHandlerFailures(options: {
  log: Log | undefined;
  count?: ((failure: HandlerFailure) => void) | undefined;
}): ReportHandlerFailure {
  const logged = new WeakMap<KubernetesObject, Set<string>>();
  return (error, failure) => {
    const { object, resource, handler } = failure;
    options.count?.(failure);
    const handlers = logged.get(object) ?? new Set();
    if (handlers.has(handler)) return;
    logged.set(object, handlers.add(handler));
    const fields = { resource, handler, key: keyOf(object), resourceVersion: object.metadata.resourceVersion };
    reportError(error, { log: options.log, fields, message: "cannot handle an object, the others go on" });
  };
}

/** Logs an error of a callback. Without a log it becomes an uncaught exception, so that it is not lost. */
export function reportError(error: unknown, options: { log: Log | undefined; fields: object; message: string }): void {
  const { log, fields, message } = options;
  if (log !== undefined) {
    log.error({ ...fields, error }, message);
    return;
  }
  queueMicrotask(() => {
    throw error;
  });
}
