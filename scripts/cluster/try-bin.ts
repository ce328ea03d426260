import { findBinaries } from "./binaries.ts";

const t = performance.now();
console.log(
  await findBinaries({ log: (m) => console.log(((performance.now() - t) / 1000).toFixed(1).padStart(6), m) }),
);
