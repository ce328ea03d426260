/**
 * A word for the command of a container or a probe, in which Kubernetes turns `$$` into `$`, and `$(NAME)` into the
 * value of a variable.
 */
export function literally(word: string): string {
  return word.replaceAll("$", "$$$$");
}
