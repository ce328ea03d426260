import { hash } from "node:crypto";
import * as v from "valibot";
import { wholeNumber } from "../../../crds/environment.ts";
import { isLoopback } from "../../http/page-check.ts";
import { type Role, roles } from "../actor.ts";

/** What a group allows. */
export interface GroupRole {
  readonly group: string;
  readonly role: Role;
  /** Whether a reader sees all tenants, also where there is a claim of tenants. */
  readonly isOfAll?: boolean;
}

/** Whose tokens the edge accepts, and what they allow. */
export interface OidcConfig {
  /** As tokens have it in `iss`. */
  readonly issuer: string;
  /** Needed in `aud` of a bearer token. Undefined: there are no bearer tokens. */
  readonly audience: string | undefined;
  /** The first one whose group is in a token decides. */
  readonly roles: readonly GroupRole[];
  /** The claim with a token's groups. */
  readonly roleClaim: string;
  /** The claim with the ids of tenants. Undefined: there is no role `tenant`. */
  readonly tenantClaim: string | undefined;
  /** How people log into the dashboard. Undefined: only with a key. */
  readonly login: OidcLoginConfig | undefined;
}

export interface OidcLoginConfig {
  readonly clientId: string;
  /** Undefined for a public client. */
  readonly clientSecret: string | undefined;
  /** Where the provider sends browsers back to. */
  readonly redirectUrl: string;
  /** Separated by spaces. */
  readonly scopes: string;
  /** How long a person's session lasts. */
  readonly sessionMs: number;
}

/** A person who is disabled at the provider keeps a session for that long. */
const SESSION_SECONDS = 14_400;
/** The path of `redirectUrl`. */
const CALLBACK_PATH = "/api/v1/session/oidc/callback";
const CLIENT_VARIABLES = [
  "TENANCY_OIDC_CLIENT_SECRET",
  "TENANCY_OIDC_REDIRECT_URL",
  "TENANCY_OIDC_SCOPES",
  "TENANCY_OIDC_SESSION",
] as const;

const READER_OF_ALL = "reader:all";

const claimName = v.pipe(
  v.string(),
  v.regex(/^[!-~]{1,200}$/, "must be the name of a claim: printable ASCII characters without spaces"),
);

const word = v.pipe(
  v.string(),
  v.regex(/^[!-~]{1,255}$/, "must be 1 to 255 printable ASCII characters without spaces"),
);

const groupRoles = v.pipe(
  v.string(),
  v.transform((text) => text.split(",").map(parseGroupRole)),
  v.custom<GroupRole[]>(
    (list) => Array.isArray(list) && list.every((one) => one !== undefined),
    `must be group=role, separated by commas; roles are ${roles.join(", ")} and ${READER_OF_ALL}`,
  ),
  v.check(
    (list) => new Set(list.map(({ group }) => group)).size === list.length,
    "must name each group once, since a group has one role",
  ),
);

/** The variables of {@link oidcConfig}. */
export const oidcEnvironment = {
  TENANCY_OIDC_ISSUER: v.optional(
    v.pipe(
      v.string(),
      v.check(
        isIssuer,
        "must be the issuer's https URL as it is in its tokens, without user, query and fragment; http only for this machine",
      ),
    ),
  ),
  TENANCY_OIDC_AUDIENCE: v.optional(word),
  TENANCY_OIDC_ROLES: v.optional(groupRoles),
  TENANCY_OIDC_ROLE_CLAIM: v.optional(claimName),
  TENANCY_OIDC_TENANT_CLAIM: v.optional(claimName),
  TENANCY_OIDC_CLIENT_ID: v.optional(word),
  TENANCY_OIDC_CLIENT_SECRET: v.optional(
    v.pipe(v.string(), v.regex(/^[ -~]{1,1024}$/, "must be 1 to 1024 printable ASCII characters")),
  ),
  TENANCY_OIDC_REDIRECT_URL: v.optional(
    v.pipe(
      v.string(),
      v.check(
        (text) => isIssuer(text) && new URL(text).pathname === CALLBACK_PATH,
        `must be the edge's https URL for browsers with the path ${CALLBACK_PATH}; http only for this machine`,
      ),
    ),
  ),
  TENANCY_OIDC_SCOPES: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^([!-~]+ )*openid( [!-~]+)*$/, "must be scopes, separated by spaces, of which one is openid"),
    ),
  ),
  TENANCY_OIDC_SESSION: v.optional(wholeNumber(60, 43_200)),
};

/**
 * @param options.apiKey TENANCY_API_KEY, without which no caller needs a token
 * @throws Error that names the variable which is missing or has no effect
 */
export function oidcConfig(
  values: v.InferOutput<v.ObjectSchema<typeof oidcEnvironment, undefined>>,
  { apiKey }: { apiKey: string | undefined },
): OidcConfig | undefined {
  const { TENANCY_OIDC_ISSUER: issuer, TENANCY_OIDC_AUDIENCE: audience, TENANCY_OIDC_ROLES: granted } = values;
  if (issuer === undefined) {
    const set = Object.keys(oidcEnvironment).find((name) => values[name as keyof typeof values] !== undefined);
    if (set === undefined) return undefined;
    throw new Error(`${set} is set, but not TENANCY_OIDC_ISSUER; set both or neither`);
  }
  if (apiKey === undefined)
    throw new Error(
      "TENANCY_OIDC_ISSUER is set, but without TENANCY_API_KEY no caller needs a token; set both or neither",
    );
  const login = loginConfig(values);
  if (audience === undefined && login === undefined)
    throw new Error(
      "TENANCY_OIDC_ISSUER is set; set TENANCY_OIDC_AUDIENCE too, so that its tokens for this service are accepted, or TENANCY_OIDC_CLIENT_ID for the login of people",
    );
  if (granted === undefined)
    throw new Error(
      "TENANCY_OIDC_ISSUER is set, but not TENANCY_OIDC_ROLES: without it, no token has a role; set it to group=role",
    );
  const tenantClaim = values.TENANCY_OIDC_TENANT_CLAIM;
  if (tenantClaim === undefined && granted.some(({ role }) => role === "tenant"))
    throw new Error(
      "TENANCY_OIDC_ROLES has the role tenant, but TENANCY_OIDC_TENANT_CLAIM is unset: set it to the claim with the tenants' ids",
    );
  return {
    issuer,
    audience,
    roles: granted,
    roleClaim: values.TENANCY_OIDC_ROLE_CLAIM ?? "groups",
    tenantClaim,
    login,
  };
}

function loginConfig(
  values: v.InferOutput<v.ObjectSchema<typeof oidcEnvironment, undefined>>,
): OidcLoginConfig | undefined {
  const { TENANCY_OIDC_CLIENT_ID: clientId, TENANCY_OIDC_REDIRECT_URL: redirectUrl } = values;
  if (clientId === undefined) {
    const set = CLIENT_VARIABLES.find((name) => values[name] !== undefined);
    if (set === undefined) return undefined;
    throw new Error(`${set} is set, but not TENANCY_OIDC_CLIENT_ID; set both or neither`);
  }
  if (redirectUrl === undefined)
    throw new Error(
      `TENANCY_OIDC_CLIENT_ID is set, but not TENANCY_OIDC_REDIRECT_URL: set it to https://<the edge's host>${CALLBACK_PATH}, as it is registered at the provider`,
    );
  return {
    clientId,
    clientSecret: values.TENANCY_OIDC_CLIENT_SECRET,
    redirectUrl,
    scopes: values.TENANCY_OIDC_SCOPES ?? "openid",
    sessionMs: (values.TENANCY_OIDC_SESSION ?? SESSION_SECONDS) * 1000,
  };
}

/** 16 hexadecimal digits that differ where what a token allows may differ. */
export function digestOfOidc({ issuer, audience, roles: granted, roleClaim, tenantClaim, login }: OidcConfig): string {
  const deciding = [issuer, audience, granted, roleClaim, tenantClaim, login?.clientId];
  return hash("sha256", JSON.stringify(deciding)).slice(0, 16);
}

/** Whether a URL is of HTTPS, or of this machine, where nothing is between the edge and the server. */
export function isSafeUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname.replace(/^\[|\]$/g, "")));
}

function isIssuer(text: string): boolean {
  if (!isSafeUrl(text) || /[?#\s]/.test(text)) return false;
  const { username, password } = new URL(text);
  return username === "" && password === "";
}

/** The last `=` separates, since names of groups may have one. */
function parseGroupRole(text: string): GroupRole | undefined {
  const at = text.lastIndexOf("=");
  const group = text.slice(0, Math.max(0, at)).trim();
  const word = text.slice(at + 1).trim();
  if (group !== "" && word === READER_OF_ALL) return { group, role: "reader", isOfAll: true };
  const role = roles.find((one) => one === word);
  return group === "" || role === undefined ? undefined : { group, role };
}
