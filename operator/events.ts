import type { ClusterClient } from "../crds/client/cluster-client.ts";
import {
  createEventRecorder as createRecorder,
  type EventRecorder as Recorder,
} from "../crds/client/event-recorder.ts";
import type { Log } from "../crds/log.ts";

/** Writes the operator's Events. */
export type EventRecorder = Recorder;

/** Makes the operator's recorder of Events. */
export function createEventRecorder(options: { client: ClusterClient; namespace: string; log: Log }): EventRecorder {
  return createRecorder({ ...options, component: "tenancy-operator" });
}
