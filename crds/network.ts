import { type Static, Type } from "@sinclair/typebox";
import { pattern } from "./schema/patterns.ts";
import { mapList, mapOf, rules, secretReference, setList, stringEnum } from "./schema/schema.ts";

const domain = (description: string) => Type.String({ description, pattern: pattern.domain, maxLength: 253 });

const headerSchema = Type.Object(
  {
    name: Type.String({ description: "Name of the header.", pattern: pattern.headerName, maxLength: 128 }),
    valueFrom: Type.Object(
      { secretKeyRef: secretReference("The Secret, in the service's namespace, with the header's value.") },
      { description: "Source of the value." },
    ),
  },
  { description: "A header that the proxy sidecar sets." },
);

const credentialSchema = Type.Object(
  {
    domain: domain("Domain whose requests get the headers; a leading *. matches every name below it."),
    headers: Type.Array(headerSchema, { description: "Headers to set.", maxItems: 32, ...mapList("name") }),
  },
  { description: "Headers for one domain." },
);

/** Who may reach a workload's instances at the front door, from no one to everyone. */
export const exposures = ["none", "key", "link", "public"] as const;
export type Exposure = (typeof exposures)[number];

export const portWords = {
  names:
    "each name must have at most 15 lower-case letters, digits and single '-', one of them a letter, no '-' at an end, and not be port- with a number, which ports without a name have",
  ports: "each name must be of another one of ports",
} as const;

/** The forms of a port's name (RFC 6335, section 5.1), as Kubernetes takes it. */
export const PORT_NAME = ["^[a-z0-9]+(-[a-z0-9]+)*$", "[a-z]"] as const;

/** The names of ports without one, in the Services of claims. */
export const UNNAMED_PORT = "^port-[0-9]+$";

export const networkSchema = Type.Object(
  {
    access: Type.Optional(
      stringEnum(["none", "restricted", "unrestricted"], {
        description:
          "What the container may reach: nothing, DNS and HTTPS (only the allowlist, if set), or everything except cloud metadata services.",
        default: "none",
      }),
    ),
    allowlist: Type.Optional(
      Type.Array(domain("Domain name; a leading *. matches every name below it."), {
        description: "Domains that the container may reach over HTTPS when access is restricted.",
        maxItems: 512,
        ...setList,
      }),
    ),
    credentials: Type.Optional(
      Type.Array(credentialSchema, {
        description: "Headers with secret values that the proxy sidecar adds to requests when access is restricted.",
        maxItems: 64,
        ...mapList("domain"),
      }),
    ),
    ports: Type.Optional(
      Type.Array(Type.Integer({ description: "Port number.", minimum: 1, maximum: 65535 }), {
        description: "Ports on which the container listens; the first is the endpoint's port.",
        maxItems: 32,
        ...setList,
      }),
    ),
    portNames: Type.Optional(
      mapOf(Type.Integer({ description: "One of ports.", minimum: 1, maximum: 65535 }), {
        description: "Names of ports, for the pods' monitors and for the claims' Services.",
        maxProperties: 32,
        ...rules({
          rule: `self.all(name, size(name) <= 15 && ${PORT_NAME.map((form) => `name.matches('${form}')`).join(" && ")} && !name.matches('${UNNAMED_PORT}'))`,
          message: portWords.names,
        }),
      }),
    ),
    expose: Type.Optional(
      stringEnum(exposures, {
        description:
          "Who may reach the container through the front door: no one, callers with the API key, callers with a signed link too, or everyone.",
        default: "none",
      }),
    ),
  },
  {
    description: "What the container may reach and where it listens.",
    default: {},
    ...rules(
      {
        rule: "!has(self.portNames) || self.portNames.all(name, has(self.ports) && self.portNames[name] in self.ports && self.portNames.all(other, other == name || self.portNames[other] != self.portNames[name]))",
        message: `spec.network.portNames: ${portWords.ports}`,
      },
      {
        rule: "self.access == 'restricted' || !has(self.allowlist) || size(self.allowlist) == 0",
        message: "spec.network.allowlist: takes effect only under access restricted: set that, or remove the list",
      },
      {
        rule: "self.access == 'restricted' || !has(self.credentials) || size(self.credentials) == 0",
        message: "spec.network.credentials: take effect only under access restricted: set that, or remove them",
      },
    ),
  },
);

export type WorkloadNetwork = Static<typeof networkSchema>;
