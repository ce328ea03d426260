import { signal } from "@preact/signals";
import { store } from "../stored.ts";

type Theme = "system" | "light" | "dark";

const root = document.documentElement;
const theme = signal<Theme>((root.dataset.theme as Theme | undefined) ?? "system");

/** Light or dark: the system's theme or a choice, which the browser stores. */
export function ThemeChoice() {
  return (
    <select
      class="quiet"
      aria-label="Theme"
      value={theme.value}
      onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}
    >
      <option value="system">System</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

export function chooseTheme(next: Theme): void {
  theme.value = next;
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  store("theme", next === "system" ? undefined : next);
}
