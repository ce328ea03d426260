/** The word as it begins a heading or the name of a kind. */
export function capital(word: string): string {
  return `${word[0]?.toUpperCase()}${word.slice(1)}`;
}
