/** A choice among words, by their names. */
export function Choice(props: {
  label: string;
  of: Readonly<Record<string, string>>;
  value: string;
  choose(value: string): void;
}) {
  const { label, of, value, choose } = props;
  return (
    <select aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)}>
      {Object.entries(of).map(([name, word]) => (
        <option key={name} value={name}>
          {word}
        </option>
      ))}
    </select>
  );
}
