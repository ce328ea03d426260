/** Of the navigation, by the word of the page: lines of an SVG path in a square of 16. */
export const icons: Readonly<Record<string, string>> = {
  Overview: "M2 8h3l2-5 3 10 2-5h2",
  Claims: "M3 3h10v7l-3 3H3zM13 10h-3v3M5.5 6h5M5.5 8.5h3",
  Instances: "M8 2l5.5 3v6L8 14l-5.5-3V5zM2.5 5L8 8l5.5-3M8 8v6",
  Snapshots: "M2 5.5h12M3 5.5v8h10v-8M2 2.5h12v3M6.5 8.5h3",
  Workloads: "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
  Pools: "M2 5c2-2 4 2 6 0s4 2 6 0M2 8.5c2-2 4 2 6 0s4 2 6 0M2 12c2-2 4 2 6 0s4 2 6 0",
  Triggers: "M9 2L3.5 9H8l-1 5 5.5-7H8z",
  Tenants: "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c0-3 2-4 5-4s5 1 5 4",
  Usage: "M2.5 13.5h11M4 11V8M8 11V3.5M12 11V6",
  Keys: "M5.5 8a2.5 2.5 0 1 0 0 .01zM8 8h6v2.5M11 8v2",
  Audit: "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2",
};
