/**
 * A shell program that writes 1 into each of the files `<folder>/file-<n>` in turn, then 2, and so on: what they have at
 * one moment never rises, and one of them may be empty.
 *
 * @param rest a command after each file. @default it does not rest
 */
export function countingProgram({
  files,
  folder,
  rest = ":",
}: {
  files: number;
  folder: string;
  rest?: string;
}): string {
  return `n=0; while :; do n=$((n + 1)); i=0
while [ $i -lt ${files} ]; do echo $n > ${folder}/file-$i; i=$((i + 1)); ${rest}; done; done`;
}

/** @param numbers what the files have in their order; 0 for an empty one */
export function areOfOneMoment(numbers: readonly number[]): boolean {
  const written = numbers.filter((number) => number > 0);
  const neverRises = written.every((number, index) => index === 0 || number <= (written[index - 1] ?? 0));
  return neverRises && written.length >= numbers.length - 1;
}
