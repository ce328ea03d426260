import type { Destination } from "./destinations.ts";

/** Renders a script that asks for all places at once; each answer is a line that begins with the place's number. */
export function probeScript(places: readonly Destination[]): string {
  const asked = places.map(({ command }, index) => `(${command}) 2>/dev/null | sed -n '1s/^/${index} /p' &`);
  return [...asked, "wait"].join("\n");
}

/** Reads what the script has printed: for each place who has answered, `-` for nobody. */
export function readAnswers(places: readonly Destination[], output: string): string[] {
  const lines = output.split("\n");
  return places.map((_, index) => {
    const line = lines.find((one) => one.startsWith(`${index} `));
    return line === undefined ? "-" : line.slice(`${index} `.length).trim();
  });
}
