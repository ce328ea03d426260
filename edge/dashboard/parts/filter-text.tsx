/** A field of a filter; its value is taken when the user leaves it or presses Enter. */
export function FilterText(props: {
  label: string;
  placeholder: string;
  maxLength: number;
  value: string;
  choose(value: string): void;
}) {
  const { label, choose, ...given } = props;
  return (
    <input
      {...{ type: "search", "aria-label": label, spellcheck: false, autocomplete: "off", ...given }}
      onChange={(event) => choose(event.currentTarget.value.trim())}
    />
  );
}
