import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pullCause } from "../../../operator/pod/pull-cause.ts";

const test = suite("pullCause");
const image = "registry.example.com/team/app:1";
/** As containerd chains what it tried. */
const resolving = (why: string) =>
  `Back-off pulling image "${image}": ErrImagePull: rpc error: code = Unknown desc = failed to pull and unpack image "${image}": failed to resolve reference "${image}": ${why}`;
const asking = (why: string) =>
  resolving(`failed to do request: Head "https://registry.example.com/v2/team/app/manifests/1": ${why}`);

const rows: [said: string, cause: string][] = [
  [asking("dial tcp: lookup registry.example.com on 10.96.0.10:53: no such host"), "no such host registry.example.com"],
  [asking("dial tcp: lookup registry.example.com: no such host"), "no such host registry.example.com"],
  [
    asking("dial tcp: lookup registry.example.com on 10.96.0.10:53: server misbehaving"),
    "the host name registry.example.com cannot be resolved (server misbehaving)",
  ],
  [
    asking("dial tcp 192.0.2.1:443: connect: connection refused"),
    "connection refused by registry.example.com (192.0.2.1:443)",
  ],
  [asking("dial tcp 192.0.2.1:443: i/o timeout"), "no answer from registry.example.com (192.0.2.1:443)"],
  [asking("net/http: TLS handshake timeout"), "no answer from registry.example.com in time"],
  [
    asking("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
    "the certificate of registry.example.com is not trusted (certificate signed by unknown authority)",
  ],
  [asking("http: server gave HTTP response to HTTPS client"), "registry.example.com answers HTTP, not HTTPS"],
  [
    resolving(
      "unexpected status from HEAD request to https://registry.example.com/v2/team/app/manifests/1: 403 Forbidden",
    ),
    "access denied by registry.example.com (403 Forbidden)",
  ],
  [
    resolving(
      "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
    ),
    "access denied by registry.example.com, or no such repository",
  ],
  [resolving(`${image}: not found`), "no such image or tag in registry.example.com"],
  [
    "reading manifest 1 in registry.example.com/team/app: manifest unknown",
    "no such image or tag in registry.example.com",
  ],
  [
    resolving("no match for platform in manifest: not found").replace("resolve", "unpack"),
    "the image has no build for the platform of the node",
  ],
  [resolving("write /var/lib/containerd/x: no space left on device"), "no space left on the disk of the node"],
  [
    'Container image "registry.example.com/team/app:1" is not present with pull policy of Never',
    "the node does not have it, and pulls no images",
  ],
  [
    `Failed to apply default image tag "a b": couldn't parse image name "a b": invalid reference format`,
    "the image name is not valid",
  ],
  [
    "toomanyrequests: You have reached your pull rate limit",
    "registry.example.com accepts no more pulls for now (429)",
  ],
  [resolving("what no one expected"), "what no one expected"],
  // Older kubelets name no cause.
  [`Back-off pulling image "${image}"`, `Back-off pulling image "${image}"`],
  ["", ""],
];
for (const [said, cause] of rows) {
  test(`says ${cause || "nothing"}`, () => {
    assert.is(pullCause(said, image), cause);
  });
}

test("an image without a registry is Docker Hub's", () => {
  for (const name of ["app:1", "team/app:1"]) assert.match(pullCause("manifest unknown", name), /in docker\.io$/);
  assert.match(pullCause("manifest unknown", "localhost:5000/app"), /in localhost:5000$/);
});

test.run();
