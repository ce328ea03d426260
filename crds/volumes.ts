import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { pattern } from "./schema/patterns.ts";
import { mapList, rules, stringEnum } from "./schema/schema.ts";

/** What is said of volumes and of `envFrom` that contradict themselves or other fields. */
export const volumeWords = {
  sources: "give exactly one of configMap, secret, persistentVolumeClaim, emptyDir and image",
  nested: "no mountPath may lie inside another: mount one of them elsewhere",
  saved: "no mountPath may lie inside one of filesystem.overlayDirs, or hold one: mount it elsewhere",
  variables: "give exactly one of configMapRef and secretRef",
} as const;

/** Where no volume can be: of the kernel, and of the pod itself, also at the end of the link that is /var/run. */
export const KERNEL_DIRECTORIES = "^/(proc|sys|dev)(/|$)";
export const OWN_DIRECTORIES = "^/(\\.tenancy(-trust)?(/|$)|(var/)?run(/?$|/tenancy(/|$)))";

const name = (description: string) => Type.String({ description, pattern: pattern.subdomain, maxLength: 253 });

const files = {
  items: Type.Optional(
    Type.Array(
      Type.Object(
        {
          key: Type.String({ description: "The key.", pattern: pattern.dataKey, maxLength: 253 }),
          path: Type.String({ description: "Name of its file.", pattern: pattern.fileName, maxLength: 253 }),
        },
        { description: "One key." },
      ),
      {
        description: "The keys that become files; all of them, each named as its key, when absent.",
        ...{ minItems: 1, maxItems: 64 },
        ...mapList("path"),
      },
    ),
  ),
  defaultMode: Type.Optional(
    Type.Integer({
      description: "Permissions of the files as a decimal number; 420 (0644 in octal) when absent, 365 for 0555.",
      ...{ minimum: 0, maximum: 0o777 },
    }),
  ),
};

const sources = {
  configMap: Type.Optional(
    Type.Object({ name: name("Its name."), ...files }, { description: "Files from a ConfigMap." }),
  ),
  secret: Type.Optional(
    Type.Object({ secretName: name("Its name."), ...files }, { description: "Files from a Secret." }),
  ),
  persistentVolumeClaim: Type.Optional(
    Type.Object(
      { claimName: name("Its name.") },
      {
        description:
          "A PersistentVolumeClaim with the label tenancy.dev/use=workload, for models and datasets: every instance reads the same files.",
      },
    ),
  ),
  emptyDir: Type.Optional(
    Type.Object(
      {
        sizeMb: Type.Integer({ description: "Its size in MB.", minimum: 1, maximum: 16777216 }),
      },
      {
        description:
          "A directory in memory, new with each instance and never saved. What is in it counts as memory of the instance.",
      },
    ),
  ),
  image: Type.Optional(
    Type.Object(
      {
        reference: Type.String({
          description: "The image.",
          pattern: pattern.word,
          maxLength: 512,
        }),
        pullPolicy: Type.Optional(
          stringEnum(["Always", "IfNotPresent", "Never"], {
            description:
              "When nodes pull it. When absent: Always for the tag latest, IfNotPresent for other tags and for digests.",
          }),
        ),
      },
      {
        description: "The files of an image. It needs the feature gate ImageVolume of Kubernetes 1.33.",
      },
    ),
  ),
} satisfies Record<string, TSchema>;

/** The kinds of volumes. */
export const volumeSources = Object.keys(sources) as (keyof typeof sources)[];

const volumeSchema = Type.Object(
  {
    mountPath: Type.String({
      description: "Absolute path of a directory in the container. It is read-only, except for emptyDir.",
      pattern: pattern.directory,
      maxLength: 1024,
    }),
    ...sources,
  },
  {
    description: "One directory.",
    oneOf: volumeSources.map((source) => ({ required: [source] })),
    ...rules({
      rule: `[${volumeSources.map((source) => `has(self.${source})`).join(", ")}].filter(given, given).size() == 1`,
      message: volumeWords.sources,
    }),
  },
);

const asFolder = (path: string) => `(${path}.endsWith('/') ? ${path} : ${path} + '/')`;

export const volumesSchema = Type.Array(volumeSchema, {
  description:
    "Directories with the platform's files, the same for every tenant. Tenants' own files belong in filesystem.overlayDirs.",
  maxItems: 16,
  ...mapList("mountPath"),
  ...rules({
    rule: `self.all(outer, self.all(inner, inner.mountPath == outer.mountPath || !${asFolder("inner.mountPath")}.startsWith(${asFolder("outer.mountPath")})))`,
    message: volumeWords.nested,
  }),
});

/** A rule of the whole spec. */
export const savedVolumesRule = {
  rule: `!has(self.volumes) || !has(self.filesystem) || !has(self.filesystem.overlayDirs) || self.volumes.all(v, self.filesystem.overlayDirs.all(d, !${asFolder("v.mountPath")}.startsWith(${asFolder("d")}) && !${asFolder("d")}.startsWith(${asFolder("v.mountPath")})))`,
  message: `spec.volumes: ${volumeWords.saved}`,
};

const variablesOf = (kind: "ConfigMap" | "Secret") =>
  Type.Optional(Type.Object({ name: name("Its name.") }, { description: `A ${kind} in the workload's namespace.` }));

export const envFromSchema = Type.Array(
  Type.Object(
    {
      prefix: Type.Optional(
        Type.String({
          description: "Text in front of each name.",
          pattern: pattern.variable,
          maxLength: 128,
        }),
      ),
      configMapRef: variablesOf("ConfigMap"),
      secretRef: variablesOf("Secret"),
    },
    {
      description: "The keys of one object, each as a variable.",
      oneOf: [{ required: ["configMapRef"] }, { required: ["secretRef"] }],
      ...rules({ rule: "has(self.configMapRef) != has(self.secretRef)", message: volumeWords.variables }),
    },
  ),
  {
    description:
      "Environment variables from ConfigMaps and Secrets, the same for every tenant, whose programs can read them. Of two equal names the later one is taken, and env before these.",
    maxItems: 16,
  },
);

export type WorkloadVolume = Static<typeof volumeSchema>;

/** A source of environment variables. */
export type VariablesSource = Static<typeof envFromSchema>[number];
