import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";

const test = suite("dashboard/colours");
const sheet = readFileSync(join(import.meta.dirname, "../../../edge/dashboard/style.css"), "utf8");
const colours = new Map(
  [...sheet.matchAll(/^ {2}--([a-z-]+): light-dark\((#\w+), (#\w+)\);$/gm)].map(([, name, light, dark]) => [
    name ?? "",
    { light: light ?? "", dark: dark ?? "" },
  ]),
);
/** WCAG 2.2, of text of any size. */
const LEAST = 4.5;

const SURFACES = ["bg", "raised", "hover"];
const TEXTS = ["fg", "muted", "accent", "ok", "warn", "bad"];
const pairs = [
  ...TEXTS.flatMap((text) => SURFACES.map((surface) => [text, surface] as const)),
  ...["accent", "ok", "warn", "bad"].map((state) => [state, `${state}-soft`] as const),
  ...["fg", "muted"].flatMap((text) =>
    ["ok", "warn", "bad", "accent"].map((state) => [text, `${state}-soft`] as const),
  ),
  // A primary button.
  ["bg", "accent"] as const,
];

for (const theme of ["light", "dark"] as const) {
  test(`each text can be read on each surface that it is on, ${theme}`, () => {
    const weak = pairs
      .map(([text, surface]) => ({ text, surface, ratio: contrast(of(text, theme), of(surface, theme)) }))
      .filter(({ ratio }) => ratio < LEAST)
      .map(({ text, surface, ratio }) => `${text} on ${surface} ${ratio.toFixed(2)}`);
    assert.equal(weak, []);
  });
}

function of(name: string, theme: "light" | "dark"): string {
  const found = colours.get(name)?.[theme];
  assert.ok(found, `style.css has no --${name}`);
  return found ?? "";
}

/** https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio */
function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function luminance(hex: string): number {
  const digits = hex.length === 4 ? [...hex.slice(1)].map((digit) => digit + digit) : (hex.slice(1).match(/../g) ?? []);
  const [r = 0, g = 0, b = 0] = digits.map((pair) => {
    const share = Number.parseInt(pair, 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

test.run();
