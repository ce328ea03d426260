/** This process's environment without the settings of the caller's own `tenancy`, which would change what is measured. */
export function programEnvironment(settings: Record<string, string>): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("TENANCY_"));
  return { ...Object.fromEntries(inherited), ...settings };
}
