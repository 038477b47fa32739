import { accountOfEmail, emailOf } from '../features/accounts/account-vault.ts'
import { createPasskeys } from '../features/sign-in/passkeys.ts'
import { createPeople } from '../features/sign-in/people.ts'
import { linkUrl, storeConsoleAddress } from '../features/sign-in/printed-link.ts'
import { createSessions } from '../features/sign-in/sessions.ts'
import type { ConsoleConfig } from '../features/sign-in/settings.ts'
import { type SignInDeps, signInRates } from '../features/sign-in/sign-in.ts'
import { createCodes, createLinks, printedLinkMs } from '../features/sign-in/sign-in-links.ts'
import { createVisitors } from '../features/sign-in/visitor.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import type { Core } from '../platform/feature/core.ts'
import type { ApiError } from '../platform/http/errors.ts'
import { createRateLimiter } from '../platform/http/rate-limit.ts'
import type { Route } from '../platform/http/route.ts'
import { createMailer } from '../platform/outgoing/mailer.ts'
import { frameContext, refusalPage } from '../platform/ui/answer-page.ts'
import { createAssets } from '../platform/ui/assets.ts'
import { publicRoots } from '../platform/ui/cookies.ts'
import { createSingleUse } from '../platform/ui/page-access.ts'
import { consoleRoutes } from '../platform/ui/serve-pages.ts'
import { consolePages, type PagesDeps } from './console-pages.ts'
import type { DemoFile } from './demo/demo-file.ts'
import type { ConsoleStart } from './greeting.ts'
import { type OperatorPageParts, openOperatorPages } from './open-operator-pages.ts'

/**
 * The one address at which people reach the console: the one that is set, else this machine by a name under which browsers
 * take its cookies and its passkeys.
 * @param baseUrl where this process listens, e.g. `http://127.0.0.1:3000`
 */
export const consoleOriginOf = (config: { readonly console: ConsoleConfig }, baseUrl: string): string =>
  config.console.url ?? `http://localhost:${new URL(baseUrl).port || '80'}`

export type Console = {
  readonly routes: readonly Route[]
  /** Every refusal of the server under the paths of pages, as a page. */
  readonly refused: {
    readonly under: readonly string[]
    refused(error: ApiError, requestId: string): ReturnType<ReturnType<typeof refusalPage>>
  }
  stop(): Promise<void>
}

const sandboxSender = 'Farebox <console@sandbox.example>'

/** The pages that people live in, with everything behind them. */
export const openConsole = (
  parts: Omit<PagesDeps, 'customer' | 'open' | 'scrapers' | 'staff' | 'operator' | 'finance' | 'signIn'> & {
    readonly customer: Omit<PagesDeps['customer'], 'island'>
    readonly scrapers: Omit<PagesDeps['scrapers'], 'island'>
    readonly open: Omit<PagesDeps['open'], 'checksScript' | 'name'>
    readonly projecting: OperatorPageParts['projecting']
    readonly gateways: OperatorPageParts['gateways']
    readonly callbackUrl: OperatorPageParts['callbackUrl']
    readonly core: Core
    /** Where people reach the console. */
    readonly origin: () => string
    /** Where the API is. */
    readonly site: () => string
    /** The mail server of stand-ins here; null where none run. */
    readonly sandboxSmtp: string | null
    readonly monotonicMs: MonotonicClock
  },
): Console => {
  const { core, customer, origin, sandboxSmtp, monotonicMs } = parts
  const { config, pool, clock, logger } = core
  const { accounts } = customer
  const mail =
    config.console.mail ?? (sandboxSmtp === null ? null : { smtp: sandboxSmtp, from: sandboxSender })
  const mailer = mail && createMailer({ ...mail, logger })
  const sessions = createSessions({ pool, clock })
  const once = createSingleUse({ pool, clock })
  const people = createPeople(core)
  const assets = createAssets()
  const name = config.payments.merchantName
  const signIn: SignInDeps = {
    sessions,
    people,
    accounts,
    links: createLinks({ pool, clock }),
    codes: createCodes({ pool, clock }),
    passkeys: createPasskeys({ pool, clock, once, master: core.keys.master, origin }),
    accountOfEmail: async (typed) => {
      const accountId = await accountOfEmail(pool, typed)
      // Asked for either way: the time of the answer says nothing of the address.
      const email = await emailOf(pool, accountId ?? ('acc_' as AccountId))
      return accountId === null || email === null ? null : { accountId, email }
    },
    mailer,
    origin,
    name,
    passkeyScript: assets.island('passkey'),
    limits:
      config.rates === null
        ? null
        : {
            perEmail: createRateLimiter(signInRates.perEmail, monotonicMs),
            perAddress: createRateLimiter(signInRates.perAddress, monotonicMs),
          },
  }
  const findAccount = async (idOrEmail: string): Promise<AccountId | null> => {
    const accountId = idOrEmail.includes('@')
      ? await accountOfEmail(pool, idOrEmail)
      : (idOrEmail as AccountId)
    const cause = { actor: { kind: 'system', name: 'console' }, correlationId: 'console' } as const
    return accountId !== null &&
      /^acc_[0-9a-f]{32}$/.test(accountId) &&
      (await accounts.read(accountId, cause))
      ? accountId
      : null
  }
  const staffRooms = openOperatorPages({ ...parts, people, findAccount })
  const pages = consolePages({
    ...parts,
    customer: { ...customer, island: assets.island },
    scrapers: { ...parts.scrapers, island: assets.island },
    open: { ...parts.open, checksScript: assets.island('proxy-checks'), name },
    staff: { people, sessions, findAccount },
    operator: { ...staffRooms.operator, island: assets.island },
    finance: { ...staffRooms.finance, island: assets.island },
    signIn,
  })
  return {
    routes: consoleRoutes(pages, {
      sessions,
      visitorOf: createVisitors({ pool, people, accounts }),
      once,
      assets,
      clock,
      origin,
      site: parts.site,
      name,
    }),
    refused: { under: ['/console', ...publicRoots], refused: refusalPage(frameContext({ assets, name })) },
    stop: async () => {
      await Promise.all([staffRooms.operator.rebuilds.stop(), staffRooms.finance.work.stop()])
      await mailer?.close()
    },
  }
}

/**
 * Keeps the console's address for commands, and makes links that sign in to the demo's accounts: whoever reads what a
 * start prints has its keys as well. A start writes no event for them; who uses one is in the log.
 */
export const startConsole = async (
  core: Core,
  origin: string,
  demo: DemoFile | null,
): Promise<ConsoleStart> => {
  await storeConsoleAddress(core.pool, origin)
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
