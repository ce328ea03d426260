import { HttpError } from "../../http/http-error.ts";
import { refuseForeignHost } from "../../http/page-check.ts";

/**
 * Refuses what a page of another site makes a browser send to a webhook that has no secret: a form's post needs nobody's leave, and would
 * reach webhooks that only the browser's machine can. Senders of webhooks are programs, which send none of these headers.
 *
 * https://www.w3.org/TR/fetch-metadata/
 *
 * @param options.localOnly whether only this machine's own names may be asked for
 * @throws HttpError 403
 */
export function refusePages(request: Request, options: { localOnly: boolean }): void {
  if (options.localOnly) refuseForeignHost(request);
  const { headers } = request;
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const isForeign =
    site === null
      ? origin !== null && hostOf(origin) !== headers.get("host")
      : site !== "same-origin" && site !== "none";
  if (isForeign)
    throw new HttpError(
      403,
      "a page of another site sent this request; give the trigger a secret (config.secretRef) and sign it",
    );
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
