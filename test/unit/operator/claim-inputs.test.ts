// What a claim gives to its program, as it is read from the cluster.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimSpec } from "../../../crds/claim.ts";
import { configMaps, secrets } from "../../../crds/client/built-in-resources.ts";
import { readInputs } from "../../../operator/claim/claim-inputs.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("readInputs");
const base64 = (text: string) => Buffer.from(text).toString("base64");
const VALUE = "planted-value";

function read(
  inputs: ClaimSpec["inputs"],
  more: { owner?: string; use?: string; type?: string; digests?: string } = {},
) {
  const { api, context } = testOperator();
  const { owner, use = "claim", type, digests } = more;
  api.add(secrets, {
    metadata: {
      name: "own",
      labels: use === "" ? {} : { "tenancy.dev/use": use },
      ...(owner !== undefined && {
        ownerReferences: [{ apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyClaim", name: "c", uid: owner }],
      }),
    },
    ...(type !== undefined && { type }),
    data: { TOKEN: base64(VALUE), "not.a.name": base64("x"), file: base64("secret content"), TENANCY_X: base64("x") },
  });
  api.add(secrets, {
    metadata: { name: "good", labels: { "tenancy.dev/use": "claim" } },
    data: { TOKEN: base64(VALUE) },
  });
  api.add(secrets, {
    metadata: { name: "big", labels: { "tenancy.dev/use": "claim" } },
    data: { A: base64("x".repeat(70_000)) },
  });
  const labels = { "tenancy.dev/use": "claim" };
  api.add(configMaps, { metadata: { name: "others" }, data: { a: VALUE } });
  api.add(configMaps, { metadata: { name: "settings", labels }, data: { a: "text" }, binaryData: { b: base64("\0") } });
  const claim = {
    metadata: {
      ...{ name: "c", uid: "claim-uid" },
      ...(digests !== undefined && { annotations: { "tenancy.dev/secret-digests": digests } }),
    },
    spec: { tenantId: "t", workloadRef: "w", ...(inputs && { inputs }) },
  };
  return readInputs(claim, context, { signal: new AbortController().signal });
}

const failure = (reading: Promise<unknown>) =>
  reading.then(
    () => "",
    (error: Error) => `${error.constructor.name}: ${error.message}`,
  );

test("variables and files come from the claim, from Secrets and from ConfigMaps", async () => {
  assert.is(await read(undefined), undefined);
  const given = await read({
    env: { A: "1", TOKEN: "is replaced" },
    secretRef: { name: "good" },
    files: [
      { path: "/a", content: "ä" },
      { path: "/data/c", base64: base64("\0"), mode: "0755" },
      { path: "/d", configMapRef: { name: "settings", key: "a" } },
      { path: "/e", configMapRef: { name: "settings", key: "b" } },
      { path: "/f", secretRef: { name: "own", key: "file" } },
    ],
  });
  assert.equal([...(given?.env ?? [])], Object.entries({ A: "1" }));
  assert.equal([...(given?.secrets ?? [])], [["TOKEN", Buffer.from(VALUE)]]);
  const found = given?.files.map(({ path, mode, content }) => [path, mode, content.toString()]);
  assert.equal(found, [
    ["/a", "0600", "ä"],
    ["/data/c", "0755", "\0"],
    ["/d", "0600", "text"],
    ["/e", "0600", "\0"],
    ["/f", "0600", "secret content"],
  ]);
});

test("a Secret or ConfigMap that is not meant for claims is refused, unless it belongs to this claim", async () => {
  const file = { files: [{ path: "/f", secretRef: { name: "own", key: "file" } }] };
  assert.match(await failure(read(file, { use: "" })), /^InputsRefused: .*own is not labelled tenancy.dev\/use=claim/);
  assert.match(await failure(read(file, { use: "trigger" })), "InputsRefused");
  assert.match(await failure(read(file, { use: "", owner: "another claim" })), "InputsRefused");
  assert.is((await read(file, { use: "", owner: "claim-uid" }))?.files[0]?.content.toString(), "secret content");
  assert.match(await failure(read(file, { use: "none", owner: "claim-uid" })), "InputsRefused");
  assert.match(await failure(read({ secretRef: { name: "tenancy-api-key" } })), "InputsRefused");
  const others = { files: [{ path: "/f", configMapRef: { name: "others", key: "a" } }] };
  assert.match(await failure(read(others)), /^InputsRefused: .*others is not labelled tenancy.dev\/use=claim/);
});

test("the Secret of a claim call is for its claim, and only what the call created is taken for it", async () => {
  const ofCall = { type: "tenancy.dev/claim", digests: "=d TOKEN=d" };
  const file = { files: [{ path: "/f", secretRef: { name: "own", key: "file" } }] };
  assert.is((await read(file, { ...ofCall, use: "", owner: "claim-uid" }))?.files.length, 1);
  for (const use of ["", "claim"])
    assert.match(
      await failure(read(file, { ...ofCall, use, owner: "other" })),
      /^InputsRefused: .*own belongs to a claim/,
    );
  assert.match(
    await failure(read({ secretRef: { name: "good" } }, ofCall)),
    /^InputsRefused: .*good was not created by the claim call/,
  );
  assert.match(
    await failure(read({ secretRef: { name: "none" } }, ofCall)),
    /^InputsMissing: .*none does not exist: its claim call was cut off/,
  );
  // Another Secret that such a claim names is not awaited.
  assert.match(
    await failure(read({ files: [{ path: "/f", secretRef: { name: "none", key: "a" } }] }, ofCall)),
    /^InputsMissing: .*none does not exist: create it/,
  );
});

test("what breaks a rule is refused for good, and what is missing may come", async () => {
  assert.match(
    await failure(read({ secretRef: { name: "own" } })),
    /^InputsRefused: .*"TENANCY_X" is a name of the service/,
  );
  assert.match(
    await failure(read({ secretRef: { name: "big" } })),
    /^InputsRefused: .*the variables have 70003 bytes, of at most 65536/,
  );
  const content = "x".repeat(65_536);
  const many = Array.from({ length: 17 }, (_, index) => ({ path: `/${index}`, content }));
  assert.match(await failure(read({ files: many })), /^InputsRefused: .*more than 1048576 bytes together/);
  assert.match(
    await failure(read({ secretRef: { name: "none" } })),
    /^InputsMissing: .*Secret none does not exist: create it/,
  );
  const missing = { files: [{ path: "/a", secretRef: { name: "good", key: "constructor" } }] };
  assert.match(await failure(read(missing)), /^InputsMissing: .*key constructor of Secret good does not exist/);
});

for (const [title, inputs, expected] of [
  ["a name that no shell can use", { env: { "a.b": "x" } }, /spec\.inputs\.env: "a\.b" is not the name/],
  ["a name of the service", { env: { TENANCY_ID: VALUE } }, /"TENANCY_ID" is a name of the service/],
  [
    "a path twice",
    {
      files: [
        { path: "/a", content: VALUE },
        { path: "/a", content: "" },
      ],
    },
    /"\/a" is named twice/,
  ],
  ["two sources", { files: [{ path: "/a", content: VALUE, base64: "" }] }, /files\[0\]: must have one of content/],
  ["no source", { files: [{ path: "/a" }] }, /files\[0\]: must have one of content/],
  ["a folder", { files: [{ path: "/a/", content: "" }] }, /files\[0\]\.path: must name a file/],
  [
    "a path of the service",
    { files: [{ path: "/run/tenancy/claimed", content: "" }] },
    /files\[0\]\.path: .*choose another/,
  ],
  [
    "the same by a link",
    { files: [{ path: "/var/run/tenancy/stop", content: "" }] },
    /files\[0\]\.path: .*choose another/,
  ],
  [
    "a file below a file",
    {
      files: [
        { path: "/a", content: "" },
        { path: "/a/b", content: "" },
      ],
    },
    /"\/a" is a file/,
  ],
  ["a path upwards", { files: [{ path: "/a/../b", content: "" }] }, /files\[0\]\.path/],
  ["a mode that is no mode", { files: [{ path: "/a", content: "", mode: "888" }] }, /files\[0\]\.mode/],
  ["base64 that is none", { files: [{ path: "/a", base64: "abc" }] }, /files\[0\]\.base64/],
] as const)
  test(`${title} is refused, and its value not shown`, async () => {
    const message = await failure(read(structuredClone(inputs) as ClaimSpec["inputs"]));
    assert.match(message, expected);
    assert.match(message, /^InputsRefused/);
    assert.not.match(message, VALUE);
  });

test.run();
