import type { LocalAnswer } from "../http/local-answer.ts";
import type { RequestHead } from "../http/message-head.ts";
import { valuesOf } from "../http/message-head.ts";

/** Whether a person views the response in a browser, and prefers a page to a minute of silence. */
export function showsPages({ method, fields }: RequestHead): boolean {
  if (method !== "GET" || !valuesOf(fields, "accept").some((value) => value.includes("text/html"))) return false;
  const [dest = "document"] = valuesOf(fields, "sec-fetch-dest");
  return dest === "document";
}

const STYLE =
  "html{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}" +
  "body{max-width:32rem;margin:20vh auto;padding:0 1.5rem}h1{font-size:1.25rem}p{overflow-wrap:anywhere}";

/**
 * A page that reloads itself each second, without a script, until the instance answers.
 *
 * @param reason what the claim waits for, for visitors who may know it
 */
export function waitingPage(reason: string | undefined): LocalAnswer {
  const why = reason === undefined ? "" : `<p>${escaped(reason)}</p>`;
  return {
    status: 503,
    fields: [
      ["Retry-After", "1"],
      ["Content-Security-Policy", `default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'`],
      ["X-Content-Type-Options", "nosniff"],
      ["Referrer-Policy", "no-referrer"],
    ],
    contentType: "text/html; charset=utf-8",
    body: `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="1"><meta name="viewport" content="width=device-width"><title>Starting</title><style>${STYLE}</style></head><body><h1>Starting</h1><p>This page reloads by itself until the instance is ready.</p>${why}</body></html>`,
  };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
