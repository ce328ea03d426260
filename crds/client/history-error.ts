/**
 * The cluster's history went back behind what was already seen: its store was restored from a backup. Nothing held in memory can be
 * trusted, so the program has to start anew, as https://kubernetes.io/docs/tasks/administer-cluster/configure-upgrade-etcd/ asks.
 */
export class HistoryError extends Error {
  override readonly name = "HistoryError";
}
