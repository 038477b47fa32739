import {
  type ConsoleConfig,
  createLinks,
  linkUrl,
  printedLinkMs,
  storeConsoleAddress,
} from '../features/sign-in/index.ts'
import type { Core } from '../platform/feature/core.ts'
import type { DemoFile } from './demo/demo-file.ts'
import type { ConsoleStart } from './greeting.ts'

/**
 * The console's public address: the configured one, else this machine under the name `localhost`, for which browsers
 * accept its cookies and passkeys.
 * @param baseUrl the address that this process listens on, such as `http://127.0.0.1:3000`
 */
export const consoleOriginOf = (config: { readonly console: ConsoleConfig }, baseUrl: string): string =>
  config.console.url ?? `http://localhost:${new URL(baseUrl).port || '80'}`

/**
 * Stores the console's address for commands, and creates sign-in links for the demo's accounts. The output of a start
 * also shows the keys of these accounts. A start writes no event for a link; the use of a link is an event.
 */
export const startConsole = async (
  core: Core,
  origin: string,
  demo: DemoFile | null,
): Promise<ConsoleStart> => {
  await storeConsoleAddress(core, origin)
  const url = `${origin}/console`
  if (demo === null) return { url, links: [] }
  const links = createLinks(core)
  const expiresAtMs = core.clock() + printedLinkMs
  return {
    url,
    links: await Promise.all(
      (['buyer', 'reseller', 'scraper'] as const).map(async (role) => ({
        role,
        url: linkUrl(origin, await links.printed(demo[role].accountId, expiresAtMs)),
      })),
    ),
  }
}
