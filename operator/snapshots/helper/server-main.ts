// The program of the helper pod alone, for an image that has Node and not the operator.
import { serveSnapshots } from "./serve-snapshots.ts";

serveSnapshots(process.env);
