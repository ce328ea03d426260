import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { createNodeRoom, type NodeRoom, stuckIndex } from "./node-room.ts";
import { createRoomQueue, type RoomQueue } from "./room-queue.ts";

/** The reason of a claim that waits for room in the namespace's quotas. */
export const WAITING_FOR_ROOM = "WaitingForRoom";

export const roomIndexes = {
  claims: {
    /** Those that wait for room, and say so. */
    inRoomQueue: ({ status }: Claim) => (status?.reason === WAITING_FOR_ROOM ? "" : undefined),
  },
  pods: {
    stuck: stuckIndex,
    /** The tenants of pods that are not being deleted. */
    held: ({ metadata: { labels, deletionTimestamp } }: Pod) =>
      deletionTimestamp === undefined ? labels?.[label.tenant] : undefined,
  },
};

/** Memory about claims that wait for room, until they have it. */
export interface RoomMemory {
  roomQueue: RoomQueue;
  nodeRoom: NodeRoom;
}

/** @param options.onChange called if another claim may create its pod, or a pool its pods */
export function createRoomMemory({ onChange }: { onChange: () => void }): RoomMemory {
  return { roomQueue: createRoomQueue({ onChange }), nodeRoom: createNodeRoom() };
}
