import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Log, silent } from "../log.ts";
import { freePort } from "../process/free-port.ts";
import { startProgram } from "../process/start-program.ts";
import { stopProcess } from "../process/stop-process.ts";
import { waitUntil } from "../process/wait-until.ts";
import { cachedGoProgram } from "../sources/cached-go-program.ts";

const PROGRAM = "versitygw";
const MODULE_FOLDER = fileURLToPath(new URL("../go-objects", import.meta.url));
const START_LIMIT_MS = 30_000;

/** An S3 server with its objects in a folder. */
export interface ObjectServer {
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
  readonly port: number;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * Starts an S3 server on this machine, which ends with this process.
 *
 * @param options.folder for all that it keeps
 * @param options.port @default any that is free
 * @throws Error when there is none and none can be built, or it does not start
 */
export async function startObjectServer({
  folder,
  port: wanted,
  log = silent,
}: {
  folder: string;
  port?: number;
  log?: Log;
}): Promise<ObjectServer> {
  const command = await findObjectServer(log);
  const port = wanted ?? (await freePort());
  const [objects, sidecar] = ["objects", "sidecar"].map((name) => join(folder, name)) as [string, string];
  for (const path of [objects, sidecar]) mkdirSync(path, { recursive: true });
  const keys = { accessKeyId: "test", secretAccessKey: "a secret of tests" };
  const program = await startProgram({
    ...{ name: PROGRAM, command, logPath: join(folder, `${PROGRAM}.log`), lifetime: "parent" },
    // File systems in memory have no extended attributes.
    arguments: ["--port", `127.0.0.1:${port}`, "--quiet", "--keep-alive", "posix", "--sidecar", sidecar, objects],
    environment: {
      ...process.env,
      ...{ ROOT_ACCESS_KEY_ID: keys.accessKeyId, ROOT_SECRET_ACCESS_KEY: keys.secretAccessKey },
    },
  });
  const endpoint = `http://127.0.0.1:${port}`;
  const answers = async (): Promise<boolean> =>
    await fetch(endpoint).then(
      () => true,
      () => false,
    );
  await waitUntil(answers, { what: `${PROGRAM} to answer`, limitMs: START_LIMIT_MS, intervalMs: 50 });
  return {
    ...{ endpoint, ...keys, region: "us-east-1", port, pid: program.identity.pid },
    stop: () => stopProcess(program.identity, { name: PROGRAM }),
  };
}

/**
 * Returns the path of the server's program, which it builds the first time, in minutes.
 *
 * @throws Error that says what is missing
 */
export async function findObjectServer(log: Log): Promise<string> {
  try {
    return await cachedGoProgram({
      ...{ what: PROGRAM, program: PROGRAM, cache: "object-server" },
      ...{ moduleFolder: MODULE_FOLDER, firstModule: "github.com/versity/versitygw", reachMs: 30_000 },
      ...{ packages: ["github.com/versity/versitygw/cmd/versitygw"], minimumGo: "1.25" },
      ...{ duration: "2 minutes on two cores", log },
    });
  } catch (error) {
    throw new Error(`Cannot start an S3 server: ${(error as Error).message}`, { cause: error });
  }
}
