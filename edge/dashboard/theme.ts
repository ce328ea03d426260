// A classic script of its own, loaded before the style: a page must not flash in the other theme, and the content
// policy allows no script in the page. shell/theme-choice.tsx writes what is read here.
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch (error) {
  console.debug("no storage, so the system's theme", error);
}
