import { readdirSync, readFileSync } from "node:fs";
import { BlockList, isIPv4 } from "node:net";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseAllDocuments } from "yaml";
import type { NetworkPolicy } from "../../../crds/kubernetes.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { renderBuildsPolicy } from "../../../operator/builds/render-build.ts";
import { closedRanges, metadataRanges } from "../../../operator/cluster/address-ranges.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import { renderPolicy } from "../../../operator/workload/render-policy.ts";

const test = suite("metadata services of clouds");
const folder = join(import.meta.dirname, "../../../manifests");

/** Where clouds serve what a machine may know, credentials among it. */
const services = [
  ...["169.254.169.254", "169.254.170.2", "169.254.170.23", "fe80::a9fe:a9fe", "fd00:ec2::254", "fd00:ec2::23"],
  // Google, Alibaba, Azure, Oracle.
  ...["fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"],
  // The same by NAT64.
  ...["64:ff9b::a9fe:a9fe", "64:ff9b::6464:64c8", "64:ff9b::a83f:8110", "64:ff9b::c000:c0"],
];

function covers(ranges: readonly string[], address: string): boolean {
  const list = new BlockList();
  for (const range of ranges) {
    const [start = "", length] = range.split("/");
    list.addSubnet(start, Number(length), isIPv4(start) ? "ipv4" : "ipv6");
  }
  return list.check(address, isIPv4(address) ? "ipv4" : "ipv6");
}

/** What of any address each rule closes, by where it stands. */
function exceptions(where: string, { spec }: Pick<NetworkPolicy, "spec">): [where: string, except: string[]][] {
  const blocks = (spec.egress ?? []).flatMap(({ to }) => (to ?? []).map(({ ipBlock }) => ipBlock));
  const open = blocks.filter((block) => block?.cidr === "0.0.0.0/0" || block?.cidr === "::/0");
  return open.map((block) => [`${where} ${block?.cidr}`, block?.except ?? []]);
}

function manifestPolicies(): [file: string, NetworkPolicy][] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".yaml") && !file.startsWith("chart/"))
    .flatMap((file) =>
      parseAllDocuments(readFileSync(join(folder, file), "utf8")).map((one) => [file, one.toJS()] as const),
    )
    .filter((one): one is [string, NetworkPolicy] => (one[1] as NetworkPolicy | null)?.kind === "NetworkPolicy");
}

test("the table holds each of them", () => {
  for (const address of services) {
    assert.ok(covers(metadataRanges, address), address);
    assert.ok(covers(closedRanges, address), address);
  }
});

test("no policy opens them, neither of manifests nor of a workload", () => {
  const spec = (access: string) => ({ image: { ref: "a" }, network: { access } }) as WorkloadSpec;
  const rendered = ["none", "restricted", "unrestricted"].flatMap((access) => {
    const workload: Workload = { metadata: { name: "app" }, spec: spec(access) };
    return exceptions(`access ${access}`, renderPolicy(workload, "tenancy"));
  });
  const written = manifestPolicies().flatMap(([file, policy]) => exceptions(`${file} ${policy.metadata.name}`, policy));
  assert.is(rendered.length, 4);
  assert.is(written.length, 4);
  for (const [where, except] of [...rendered, ...written]) {
    const isFour = where.endsWith("0.0.0.0/0");
    const expected = metadataRanges.filter((range) => isIPv4(range.split("/")[0] ?? "") === isFour);
    assert.equal([...except].sort(), [...expected].sort(), where);
  }
});

test("a build does not reach them, nor by a range that is opened", () => {
  const { builds } = operatorConfig({
    TENANCY_REGISTRY: "registry.example.com/built",
    TENANCY_BUILD_PRIVATE_RANGES: "100.64.0.0/10,fd00::/8,10.1.0.0/16",
  });
  const { spec } = renderBuildsPolicy(builds as BuildConfig);
  const blocks = (spec.egress ?? []).flatMap(({ to }) => to ?? []).flatMap(({ ipBlock }) => ipBlock ?? []);
  assert.is(blocks.length, 5);
  for (const { cidr, except = [] } of blocks)
    for (const address of services.filter((one) => covers([cidr], one) && isIPv4(one) === !cidr.includes(":")))
      assert.ok(covers(except, address), `${cidr} ${address}`);
});

test.run();
