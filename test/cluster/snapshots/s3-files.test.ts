// @own-cluster
// @limit 900
// What these test with archives on the volume, with archives in object storage.
import "./in-objects.ts";
import "../../unit/snapshots/checkpoints.test.ts";
import "../../unit/snapshots/former-archives.test.ts";
import "../../unit/snapshots/increments.test.ts";
import "../../unit/snapshots/round-trip.test.ts";
import "../../unit/snapshots/save-mark.test.ts";
import "../../unit/snapshots/snapshots.test.ts";
import "../../unit/snapshots/unchanged-files.test.ts";
