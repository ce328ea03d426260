/**
 * Whether a Kubernetes version such as `v1.34.10` is at least a minor release such as `1.24`.
 *
 * @throws Error when the version cannot be read
 */
export function versionAtLeast(version: string, minimum: string): boolean {
  const [major, minor] = numbers(version);
  const [wantedMajor, wantedMinor] = numbers(minimum);
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor);
}

function numbers(version: string): [number, number] {
  const match = /^v?(\d+)\.(\d+)/.exec(version);
  if (!match) throw new Error(`Cannot read "${version}" as a Kubernetes version such as v1.34.0`);
  return [Number(match[1]), Number(match[2])];
}
