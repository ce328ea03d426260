/** The phase of an object; one that has no status yet is `Pending`, as pods and claims are born. */
export function phaseOf({ status }: { status?: { phase?: string } | undefined }): string {
  return status?.phase ?? "Pending";
}
