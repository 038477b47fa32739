import type { ConsoleConfig } from '../console/mail/settings.ts'

/**
 * The one address at which people reach the console: the one that is set, else this machine by a name under which browsers
 * take its cookies and its passkeys.
 * @param baseUrl where this process listens, e.g. `http://127.0.0.1:3000`
 */
export const consoleOriginOf = (config: { readonly console: ConsoleConfig }, baseUrl: string): string =>
  config.console.url ?? `http://localhost:${new URL(baseUrl).port || '80'}`
