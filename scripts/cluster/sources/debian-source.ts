import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { installDebianPackages, isDebianPackage } from "../debian-packages.ts";
import type { Log } from "../log.ts";
import { runCommand, runWithLines } from "../process/run-command.ts";
import { type BinariesSource, withProgress } from "./binaries-source.ts";

const VERSION = "v1.20.2";
const GO = "/usr/lib/go-1.19/bin";
const BUILD_PACKAGES = ["golang-1.19-go", "golang-github-modern-go-reflect2-dev", "rsync", "make", "gcc", "libc6-dev"];
const COMMANDS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"];
const LIMIT_MS = 60 * 60_000;

/**
 * Kubernetes 1.20.2 as bookworm's source package has it: the last Debian release whose package holds more than kubectl.
 * Every step leaves its result behind, so an interrupted run goes on with the step that it was at.
 */
export const debianSource: BinariesSource = {
  name: "debian-source",
  takesLong: true,
  async find({ binariesFolder, environment, log }) {
    if (process.getuid?.() !== 0) return { because: "building it takes root, to install Debian's Go toolchain" };
    const archive = debianArchive();
    if (archive === undefined) return { because: "no Debian archive in the apt sources" };
    if (!existsSync(`${GO}/go`) && !(await isDebianPackage("golang-1.19-go", log))) {
      return { because: "this Debian release has no golang-1.19-go, and later Go compilers do not take that source" };
    }
    await installDebianPackages(BUILD_PACKAGES, log);
    const work = join(binariesFolder, "debian-source-work");
    const source = join(work, "gopath", "src", "k8s.io", "kubernetes");
    const folder = join(binariesFolder, `debian-source-${VERSION}`);
    await unpackSource(work, source, archive, log);
    replaceReflect(source);
    await generateOpenApi(source, environment, log);
    await compile(work, source, folder, environment, log);
    rmSync(work, { recursive: true, force: true });
    return { folder, version: VERSION };
  },
};

async function unpackSource(work: string, source: string, archive: string, log: Log): Promise<void> {
  if (existsSync(source)) return;
  const download = join(work, "download");
  mkdirSync(join(download, "lists", "partial"), { recursive: true });
  writeFileSync(join(download, "sources.list"), `deb-src ${archive} bookworm main\n`);
  const apt = [
    ...["-qq", "-o", `Dir::Etc::sourcelist=${download}/sources.list`, "-o", "Dir::Etc::sourceparts=/dev/null"],
    // Without a sandbox user, who could not read this folder; the signature is checked all the same.
    ...["-o", `Dir::State::lists=${download}/lists`, "-o", "APT::Sandbox::User=root"],
  ];
  log("fetching Debian's kubernetes source package");
  await runCommand("apt-get", [...apt, "update"], { folder: download, limitMs: LIMIT_MS });
  await runCommand("apt-get", [...apt, "source", "--download-only", "kubernetes"], {
    folder: download,
    limitMs: LIMIT_MS,
  });
  const original = readdirSync(download).find((file) => file.endsWith(".orig.tar.gz"));
  if (original === undefined) throw new Error(`Cannot find the source's .orig.tar.gz in ${download}`);
  const unpacked = join(work, "unpacked");
  rmSync(unpacked, { recursive: true, force: true });
  mkdirSync(unpacked, { recursive: true });
  await runCommand("tar", ["xzf", join(download, original), "-C", unpacked, "--strip-components=1"], {
    limitMs: LIMIT_MS,
  });
  mkdirSync(join(source, ".."), { recursive: true });
  renameSync(unpacked, source);
}

/**
 * The vendored reflect2 1.0.1 reads Go's map iterator wrongly from Go 1.18 on: the API server dies at the first custom
 * resource that is written. Debian packages 1.0.2, which does not.
 */
function replaceReflect(source: string): void {
  const vendored = join(source, "vendor", "github.com", "modern-go", "reflect2");
  const marker = join(vendored, ".from-debian");
  if (existsSync(marker)) return;
  rmSync(vendored, { recursive: true, force: true });
  cpSync("/usr/share/gocode/src/github.com/modern-go/reflect2", vendored, { recursive: true, dereference: true });
  writeFileSync(marker, "");
}

async function generateOpenApi(source: string, environment: NodeJS.ProcessEnv, log: Log): Promise<void> {
  const generated = join(source, "pkg", "generated", "openapi", "zz_generated.openapi.go");
  if ((statSync(generated, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  log("generating the OpenAPI definitions (20 s)");
  const { GOPATH: _path, GO111MODULE: _module, GOFLAGS: _flags, ...rest } = environment;
  await withProgress(log, (onLine) =>
    runWithLines("make", ["gen_openapi"], {
      folder: source,
      environment: { ...rest, PATH: `${GO}:${environment.PATH}` },
      limitMs: LIMIT_MS,
      onLine,
    }),
  );
  rmSync(join(source, "_output"), { recursive: true, force: true });
}

async function compile(
  work: string,
  source: string,
  folder: string,
  environment: NodeJS.ProcessEnv,
  log: Log,
): Promise<void> {
  log(`compiling Kubernetes ${VERSION} (3 to 5 minutes on two cores)`);
  const unfinished = join(work, "bin");
  mkdirSync(unfinished, { recursive: true });
  const vendor = "k8s.io/kubernetes/vendor/k8s.io";
  const versions = ["component-base/version", "client-go/pkg/version"].flatMap((path) => [
    `-X ${vendor}/${path}.gitVersion=${VERSION}`,
    `-X ${vendor}/${path}.gitMajor=1`,
    `-X ${vendor}/${path}.gitMinor=20`,
  ]);
  let packages = 0;
  const flags = [
    "-tags",
    "providerless,dockerless",
    "-ldflags",
    ["-s", "-w", ...versions].join(" "),
    "-o",
    `${unfinished}/`,
  ];
  await withProgress(log, (update) =>
    runWithLines(
      "nice",
      ["-n", "10", "go", "build", "-v", ...flags, ...COMMANDS.map((command) => `./cmd/${command}`)],
      {
        folder: source,
        environment: {
          ...environment,
          PATH: `${GO}:${environment.PATH}`,
          GOPATH: join(work, "gopath"),
          GOCACHE: join(work, "go-build"),
          GO111MODULE: "off",
          GOFLAGS: "",
          CGO_ENABLED: "0",
        },
        limitMs: LIMIT_MS,
        onLine: () => update(`compiled ${++packages} packages`),
      },
    ),
  );
  rmSync(folder, { recursive: true, force: true });
  renameSync(unfinished, folder);
}

/** Returns the address of the Debian archive that this machine's apt uses, or undefined when it has none. */
export function debianArchive(folder = "/etc/apt"): string | undefined {
  const parts = join(folder, "sources.list.d");
  const files = [
    join(folder, "sources.list"),
    ...(existsSync(parts) ? readdirSync(parts).map((file) => join(parts, file)) : []),
  ];
  for (const file of files) {
    if (!existsSync(file)) continue;
    const lines = readFileSync(file, "utf8").split("\n");
    for (const line of lines) {
      const address = line.startsWith("#") ? undefined : /https?:\/\/\S+\/debian\/?(?=\s|$)/.exec(line)?.[0];
      if (address !== undefined) return address;
    }
  }
  return undefined;
}
