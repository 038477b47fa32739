import { keepConsoleAddress } from '../console/session/address.ts'
import { createLinks, printedLinkMs } from '../console/session/links.ts'
import { linkUrl } from '../console/session/printed-link.ts'
import type { Core } from './core.ts'
import type { DemoFile } from './demo/file.ts'
import type { ConsoleStart } from './greeting.ts'

/**
 * Keeps the console's address for commands, and makes links that sign in to the demo's accounts: whoever reads what a
 * start prints has its keys as well. A start writes no event for them; who uses one is in the log.
 */
export const startConsole = async (
  core: Core,
  origin: string,
  demo: DemoFile | null,
): Promise<ConsoleStart> => {
  await keepConsoleAddress(core.pool, origin)
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
