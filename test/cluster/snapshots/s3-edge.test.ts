// @own-cluster
// @runtimes bun node
// @limit 900
// What these test with archives on the volume, with archives in object storage.
import "./in-objects.ts";
import "../../unit/e2b/lifetime.test.ts";
import "../../unit/e2b/list.test.ts";
import "../../unit/edge/snapshot-files.test.ts";
import "../../unit/edge/snapshot-upload.test.ts";
import "../../unit/edge/snapshot-versions.test.ts";
