import { createHash } from "node:crypto";
import type { KubernetesObject } from "../kubernetes.ts";
import type { Log } from "../log.ts";
import { objectName } from "../names.ts";
import type { Resource } from "../resource.ts";
import { isAlreadyExists } from "./api-error.ts";
import { events } from "./built-in-resources.ts";
import type { ClusterClient } from "./cluster-client.ts";

export interface RecordedEvent {
  resource: Resource<KubernetesObject>;
  object: KubernetesObject;
  type: "Normal" | "Warning";
  /** One word for programs. */
  reason: string;
  /** What happened and what to do about it. */
  message: string;
}

export interface EventRecorder {
  /** Records an Event on an object, in the background. A repetition increases the count of the existing Event. */
  record(event: RecordedEvent): void;
  /** Resolves when all Events recorded so far are written or have failed. */
  flush(): Promise<void>;
}

// More pending Events mean a serious problem already, and Events are the least important writes.
const MOST_PENDING = 256;
const LONGEST_MESSAGE = 1024;

/**
 * Writes Events for people, https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/: about
 * failures and about changes by people, never about routine success.
 */
export function createEventRecorder(options: {
  client: ClusterClient;
  namespace: string;
  /** The program that records them, such as `tenancy-operator`. */
  component: string;
  log: Log;
}): EventRecorder {
  const { client, namespace, component, log } = options;
  const pending = new Map<string, Promise<void>>();

  function record(event: RecordedEvent): void {
    const { object, reason, message } = event;
    const about = { kind: event.resource.kind, name: object.metadata.name, reason };
    const suffix = createHash("sha256")
      .update(`${object.metadata.uid}\n${reason}\n${message}`)
      .digest("hex")
      .slice(0, 10);
    const name = objectName({ prefix: "event", parts: [object.metadata.name], suffix });
    // A repetition while the first is still being written adds no information.
    if (pending.has(name)) return;
    if (pending.size >= MOST_PENDING) {
      log.warn(about, "event dropped, too many are being written");
      return;
    }
    const writing = write(name, event)
      .catch((error: unknown) => log.warn({ ...about, error }, "event not written"))
      .finally(() => pending.delete(name));
    pending.set(name, writing);
  }

  async function write(name: string, { resource, object, type, reason, message }: RecordedEvent): Promise<void> {
    const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
    try {
      await client.create(events, {
        metadata: { name, namespace },
        involvedObject: {
          apiVersion: resource.group === "" ? resource.version : `${resource.group}/${resource.version}`,
          kind: resource.kind,
          namespace,
          name: object.metadata.name,
          ...(object.metadata.uid !== undefined && { uid: object.metadata.uid }),
        },
        type,
        reason,
        message: message.slice(0, LONGEST_MESSAGE),
        firstTimestamp: now,
        lastTimestamp: now,
        count: 1,
        source: { component },
      });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const present = await client.get(events, { namespace, name });
      const body = { lastTimestamp: now, count: (present.count ?? 1) + 1 };
      await client.patch(events, { namespace, name }, { type: "merge", body });
    }
  }

  async function flush(): Promise<void> {
    await Promise.all(pending.values());
  }

  return { record, flush };
}
