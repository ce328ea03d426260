import * as oidc from "openid-client";
import * as v from "valibot";
import { systemClock } from "../../crds/client/clock.ts";
import { isSafeUrl } from "../access/oidc/oidc-config.ts";
import { CommandError, UsageError } from "./command.ts";

/** Where a person has an account, and as what this program asks for tokens. */
const providerFields = {
  /** As in its tokens' `iss`. */
  issuer: v.string(),
  clientId: v.string(),
  /** Separated by spaces. */
  scope: v.string(),
  /** Who the tokens are for: https://www.rfc-editor.org/rfc/rfc8707. */
  resource: v.optional(v.string()),
};

/** A login at a provider. */
export const oidcLoginSchema = v.strictObject({
  ...providerFields,
  accessToken: v.string(),
  /** Absent if the provider gave none: then the login ends with the access token. */
  refreshToken: v.optional(v.string()),
  /** When the access token ends, in milliseconds since the epoch. */
  endsAt: v.number(),
});
export type OidcLogin = v.InferOutput<typeof oidcLoginSchema>;
export type OidcProvider = Pick<OidcLogin, keyof typeof providerFields>;

/** For clocks that differ, and for the command itself. */
const EARLY_MS = 30_000;
/** Where a provider does not say how long a token is valid. */
const SHORT_SECONDS = 60;
const NOT_ALLOWED = 4;

/**
 * Logs a person in who confirms a code in a browser, which may be on another machine:
 * https://www.rfc-editor.org/rfc/rfc8628.
 *
 * @param options.show where to go, and the code
 * @throws CommandError if the provider cannot be used, or the person does not confirm in time
 */
export async function logInByDevice(
  provider: OidcProvider,
  { show, signal }: { show: (line: string) => Promise<void>; signal: AbortSignal },
): Promise<OidcLogin> {
  const { scope, resource } = provider;
  return await asked(provider, async (config) => {
    const parameters = { scope, ...(resource !== undefined && { resource }) };
    const device = await oidc.initiateDeviceAuthorization(config, parameters);
    const { verification_uri_complete: whole, verification_uri: page, user_code: code } = device;
    await show(`Open ${whole ?? page} in a browser, and confirm the code ${code}`);
    const more = resource === undefined ? undefined : { resource };
    return loginOf(provider, await oidc.pollDeviceAuthorizationGrant(config, device, more, { signal }));
  });
}

/** Whether the access token of a login is about to end. */
export function isEnding({ endsAt }: OidcLogin): boolean {
  return endsAt - EARLY_MS <= systemClock.now();
}

/**
 * Gets another access token for a login, without the person.
 *
 * @throws CommandError if the login has ended, or the provider cannot be reached
 */
export async function refreshLogin(login: OidcLogin): Promise<OidcLogin> {
  const { issuer, refreshToken, resource } = login;
  if (refreshToken === undefined) throw hasEnded(issuer, "it gave no refresh token; --scope may have to name one");
  const parameters = resource === undefined ? undefined : { resource };
  const tokens = await asked(login, (config) => oidc.refreshTokenGrant(config, refreshToken, parameters));
  return loginOf({ ...login, refreshToken }, tokens);
}

function loginOf(
  { issuer, clientId, scope, resource, refreshToken: former }: OidcProvider & { refreshToken?: string | undefined },
  tokens: oidc.TokenEndpointResponse,
): OidcLogin {
  const { access_token: accessToken, refresh_token: refreshToken = former, expires_in: seconds } = tokens;
  return {
    ...{ issuer, clientId, scope, accessToken },
    ...(resource !== undefined && { resource }),
    ...(refreshToken !== undefined && { refreshToken }),
    endsAt: systemClock.now() + (seconds ?? SHORT_SECONDS) * 1000,
  };
}

/** Asks the provider. @throws CommandError that says what it answered */
async function asked<T>({ issuer, clientId }: OidcProvider, ask: (config: oidc.Configuration) => Promise<T>) {
  if (!isSafeUrl(issuer)) throw new UsageError(`--issuer: ${JSON.stringify(issuer)} is not an https URL`);
  // Checked above: only for this machine.
  const execute = issuer.startsWith("http:") ? [oidc.allowInsecureRequests] : [];
  try {
    return await ask(await oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), { execute }));
  } catch (cause) {
    if (cause instanceof oidc.ResponseBodyError) {
      const { error, error_description: why } = cause;
      throw error === "invalid_grant" ? hasEnded(issuer, why) : refused(issuer, why ?? error, cause);
    }
    if (!(cause instanceof oidc.ClientError) && !(cause instanceof TypeError)) throw cause;
    const reason = cause.cause instanceof Error ? cause.cause.message : cause.message;
    throw new CommandError(`Cannot use the provider ${issuer}: ${reason}`, { exitCode: 6, cause });
  }
}

function refused(issuer: string, why: string, cause: unknown): CommandError {
  return new CommandError(`The provider ${issuer} refuses the login: ${why}`, { exitCode: NOT_ALLOWED, cause });
}

function hasEnded(issuer: string, why = "its refresh token is not valid any more"): CommandError {
  const message = `The login at ${issuer} has ended (${why}): run tenancy login --oidc again`;
  return new CommandError(message, { exitCode: NOT_ALLOWED });
}
