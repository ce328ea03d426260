import type { runtimes } from "../unit/edge/edge-process.ts";

type Runtime = keyof typeof runtimes;

/**
 * The runtimes on which a file goes through all that it tests of the edge: Bun, and the others in `npm run test:long`,
 * where a file beside it sets `TENANCY_TEST_EDGE_RUNTIMES`.
 */
export const edgeRuntimes = (process.env.TENANCY_TEST_EDGE_RUNTIMES ?? "bun").split(" ") as Runtime[];
