// A separate classic script, loaded before the style: the page must not flash in the wrong theme or move, and the
// content policy forbids inline scripts. shell/choices.tsx writes the values that are read here.
try {
  const values = { theme: ["light", "dark"], density: ["compact"], navigation: ["open", "folded"] };
  for (const [name, allowed] of Object.entries(values)) {
    const chosen = localStorage.getItem(name);
    if (chosen !== null && allowed.includes(chosen)) document.documentElement.dataset[name] = chosen;
  }
} catch (error) {
  console.debug("No storage available; using what the system has", error);
}
