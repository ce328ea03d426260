// @limit 600
import "./pages.ts";
// Visits the pages of what the first has made.
import "./keyboard.ts";
