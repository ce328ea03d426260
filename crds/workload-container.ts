/** Name of the workload's own container in each of its pods; the operator gives it. */
export const WORKLOAD_CONTAINER = "workload";
