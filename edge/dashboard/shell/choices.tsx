import { signal } from "@preact/signals";
import { store } from "../stored.ts";

const root = document.documentElement;

/** How the browser's user wants the page; undefined: as the system or the width has it. */
export const chosen = {
  theme: signal(root.dataset.theme),
  density: signal(root.dataset.density),
  navigation: signal(root.dataset.navigation),
};

/** Stores a choice; style.css has the values, and theme.ts sets them before the first paint. */
export function choose(name: keyof typeof chosen, value: string | undefined): void {
  chosen[name].value = value;
  if (value === undefined) delete root.dataset[name];
  else root.dataset[name] = value;
  store(name, value);
}

export function ThemeChoice() {
  return <Choice name="theme" label="Theme" usual="System" others={["Light", "Dark"]} />;
}

export function DensityChoice() {
  return <Choice name="density" label="Density" usual="Comfortable" others={["Compact"]} />;
}

function Choice(props: { name: keyof typeof chosen; label: string; usual: string; others: readonly string[] }) {
  const { name, label, usual, others } = props;
  return (
    <select
      class={name}
      aria-label={label}
      value={chosen[name].value ?? ""}
      onChange={(event) => choose(name, event.currentTarget.value || undefined)}
    >
      <option value="">{usual}</option>
      {others.map((word) => (
        <option key={word} value={word.toLowerCase()}>
          {word}
        </option>
      ))}
    </select>
  );
}
