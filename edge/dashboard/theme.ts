// A separate classic script, loaded before the style: the page must not flash in the wrong theme, and the content
// policy forbids inline scripts. shell/theme-choice.tsx writes the value that is read here.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch (error) {
  console.debug("No storage available; using the system theme", error);
}
