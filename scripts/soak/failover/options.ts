/** What is done to the programs. */
export type Fault = keyof typeof DESCRIPTIONS;

export const DESCRIPTIONS = {
  kill: "leader killed (SIGKILL)",
  suspend: "leader stands still (SIGSTOP) until another leads",
  cut: "leader's network lets nothing through until another leads",
  edge: "edge replica killed",
  "api-server": "API server killed, and away for a while",
} as const;

const LEADER_FAULTS: readonly Fault[] = ["kill", "suspend", "cut"];
/** So many leaders are lost before an edge is. */
const LEADERS_AN_EDGE = 5;

/** So many leaders lost, each in another way than the one before, with edges in between, and the API server in the end. */
export function faultsOf(leaders: number): Fault[] {
  const faults = Array.from({ length: leaders }, (_, index): Fault[] => [
    LEADER_FAULTS[index % LEADER_FAULTS.length] ?? "kill",
    ...(index % LEADERS_AN_EDGE === LEADERS_AN_EDGE - 1 ? (["edge"] as const) : []),
  ]);
  return [...faults.flat(), "api-server"];
}
