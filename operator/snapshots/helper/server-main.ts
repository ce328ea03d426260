// The helper pod's program, for an image with Node but without the operator.
import { serveSnapshots } from "./serve-snapshots.ts";

serveSnapshots(process.env);
