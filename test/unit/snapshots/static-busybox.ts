import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";

/** The busybox that the tools image has too. */
export const staticBusybox = await findStaticBusybox(() => undefined);
