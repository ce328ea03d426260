export interface EtcdFlagsOptions {
  dataFolder: string;
  clientPort: number;
  peerPort: number;
}

/** Returns the command line of a single etcd on loopback, for a cluster whose data may be lost with the machine. */
export function etcdFlags({ dataFolder, clientPort, peerPort }: EtcdFlagsOptions): string[] {
  const client = `http://127.0.0.1:${clientPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  return [
    `--data-dir=${dataFolder}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--unsafe-no-fsync",
    "--log-level=warn",
    // The only member elects itself: 100 ms instead of the second that a group of several waits.
    "--heartbeat-interval=10",
    "--election-timeout=100",
  ];
}
