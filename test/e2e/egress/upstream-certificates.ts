import { generateKeyPairSync } from "node:crypto";
import { certificate } from "../../../scripts/cluster/pki/certificate.ts";
import type { UpstreamSettings } from "./messages.ts";

/** Certificates for names, of an authority that only this test knows, and some that a proxy must refuse. */
export async function upstreamCertificates(names: readonly string[]): Promise<{
  authority: string;
  certificates: UpstreamSettings["certificates"];
}> {
  const pair = () => generateKeyPairSync("ec", { namedCurve: "P-256" });
  const [known, unknown] = [pair(), pair()];
  const issuer = { commonName: "tenancy test upstream", privateKey: known.privateKey };
  const authority = await certificate({
    ...{ commonName: issuer.commonName, purpose: "authority", publicKey: known.publicKey, issuer },
  });
  const make = async (name: string, own: { privateKey: typeof known.privateKey } = known, days = 30) => {
    const keys = pair();
    return {
      key: keys.privateKey.export({ type: "pkcs8", format: "pem" }) as string,
      certificate: await certificate({
        ...{ commonName: name, alternativeNames: [name], purpose: "server", publicKey: keys.publicKey, days },
        issuer: { commonName: issuer.commonName, privateKey: own.privateKey },
      }),
    };
  };
  return {
    authority,
    certificates: {
      ...Object.fromEntries(await Promise.all(names.map(async (name) => [name, await make(name)] as const))),
      "unknown-authority.example": await make("unknown-authority.example", unknown),
      "other-name.example": await make("somebody-else.example"),
      "expired.example": await make("expired.example", known, -1),
      "*": await make("nobody.example"),
    },
  };
}
