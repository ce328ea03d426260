// The operator: reconciles the four kinds into pods and network policies; with the argument `snapshots`, the program of
// its helper pod. Configuration: environment variables, see docs/reference/settings.md.

async function main(): Promise<void> {
  // Load only the needed program, since the helper pod has little memory.
  if (process.argv[2] === "snapshots") {
    const { serveSnapshots } = await import("./snapshots/helper/serve-snapshots.ts");
    return serveSnapshots(process.env);
  }
  const { runOperator } = await import("./run-operator.ts");
  await runOperator();
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
