import { isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Container, ContainerStatus, Pod } from "../../../crds/kubernetes.ts";
import { podFiles } from "../../../crds/snapshots/pod-files.ts";
import { eventsOf } from "../object-events.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { type InstanceServices, instanceNotFound, instanceResponse } from "./instance.ts";

type ShownContainer = NonNullable<ApiTypes["InstanceDetail"]["containers"]>[number];

/**
 * An instance with its node, containers and Events, read now.
 *
 * @throws HttpError 404 if the pod is gone, or another pod has its name
 */
export async function instanceDetail(
  known: Pod,
  services: Pick<InstanceServices, "cluster">,
): Promise<ApiTypes["InstanceDetail"]> {
  const { name, uid } = known.metadata;
  let pod: Pod;
  try {
    pod = await services.cluster(pods).named(name).get();
  } catch (error) {
    throw isNotFound(error) ? instanceNotFound(name) : error;
  }
  if (pod.metadata.uid !== uid) throw instanceNotFound(name);
  const { spec, status } = pod;
  const statuses = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return {
    ...instanceResponse(known),
    ...(spec.nodeName !== undefined && { node: spec.nodeName }),
    containers: [...(spec.initContainers ?? []), ...spec.containers].map((container) =>
      shownContainer(
        container,
        statuses.find((one) => one.name === container.name),
      ),
    ),
    savedDirs: hasEnded(pod) ? [] : [...podFiles(pod).overlayDirs],
    ...(await eventsOf([uid], services)),
  };
}

/** Whether its files can no longer be read. */
function hasEnded({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined || status?.phase === "Failed" || status?.phase === "Succeeded";
}

function shownContainer({ name, image, resources }: Container, status: ContainerStatus | undefined): ShownContainer {
  const { running, terminated, waiting } = status?.state ?? {};
  const { reason, message } = terminated ?? waiting ?? {};
  const { requests, limits } = resources ?? {};
  return {
    name,
    image: image ?? "",
    state: running !== undefined ? "running" : terminated !== undefined ? "terminated" : "waiting",
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    ready: status?.ready ?? false,
    restarts: status?.restartCount ?? 0,
    ...(requests !== undefined && { requests: { ...requests } }),
    ...(limits !== undefined && { limits: { ...limits } }),
  };
}
