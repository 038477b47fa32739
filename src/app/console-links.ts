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
 * The one address at which people reach the console: the one that is set, else this machine by a name under which browsers
 * take its cookies and its passkeys.
 * @param baseUrl where this process listens, e.g. `http://127.0.0.1:3000`
 */
export const consoleOriginOf = (config: { readonly console: ConsoleConfig }, baseUrl: string): string =>
  config.console.url ?? `http://localhost:${new URL(baseUrl).port || '80'}`

/**
 * Stores the console's address for commands, and makes links that sign in to the demo's accounts. The output of a start shows
 * the keys of these accounts as well. A start writes no event for a link; its use is an event.
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
