import type { Container, Volume, VolumeMount } from "../../crds/kubernetes.ts";
import type { VariablesSource, WorkloadVolume } from "../../crds/volumes.ts";

/**
 * The volumes of a workload's spec and where its container has them. Takes the known fields one by one: a CRD of a
 * later version may have more.
 */
export function volumesOf(given: readonly WorkloadVolume[]): { volumes: Volume[]; volumeMounts: VolumeMount[] } {
  const name = (index: number) => `volume-${index}`;
  return {
    volumes: given.map((volume, index) => ({ name: name(index), ...sourceOf(volume) })),
    volumeMounts: given.map(({ mountPath, emptyDir }, index) => ({
      ...{ name: name(index), mountPath },
      ...(emptyDir === undefined && { readOnly: true }),
    })),
  };
}

function sourceOf({ configMap, secret, persistentVolumeClaim, emptyDir, image }: WorkloadVolume): Omit<Volume, "name"> {
  if (configMap !== undefined) return { configMap: { name: configMap.name, ...filesOf(configMap) } };
  if (secret !== undefined) return { secret: { secretName: secret.secretName, ...filesOf(secret) } };
  if (persistentVolumeClaim !== undefined)
    return { persistentVolumeClaim: { claimName: persistentVolumeClaim.claimName, readOnly: true } };
  if (image !== undefined) {
    const { reference, pullPolicy } = image;
    return { image: { reference, ...(pullPolicy !== undefined && { pullPolicy }) } };
  }
  return { emptyDir: { medium: "Memory", ...(emptyDir !== undefined && { sizeLimit: `${emptyDir.sizeMb}Mi` }) } };
}

function filesOf({ items, defaultMode }: Omit<NonNullable<WorkloadVolume["configMap"]>, "name">) {
  return {
    ...(items !== undefined && { items: items.map(({ key, path }) => ({ key, path })) }),
    ...(defaultMode !== undefined && { defaultMode }),
  };
}

export function variablesOf(given: readonly VariablesSource[]): NonNullable<Container["envFrom"]> {
  return given.map(({ prefix, configMapRef, secretRef }) => ({
    ...(prefix !== undefined && { prefix }),
    ...(configMapRef !== undefined && { configMapRef: { name: configMapRef.name } }),
    ...(secretRef !== undefined && { secretRef: { name: secretRef.name } }),
  }));
}
