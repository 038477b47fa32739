import { accountOfEmail } from '../features/accounts/account-vault.ts'
import { createPasskeys } from '../features/sign-in/passkeys.ts'
import { createPeople } from '../features/sign-in/people.ts'
import { linkUrl, storeConsoleAddress } from '../features/sign-in/printed-link.ts'
import { createSessions } from '../features/sign-in/sessions.ts'
import type { ConsoleConfig } from '../features/sign-in/settings.ts'
import {
  createMailedCodes,
  createSendLink,
  createSignIn,
  createSignInByPasskey,
  signInRates,
} from '../features/sign-in/sign-in.ts'
import { createCodes, createLinks, printedLinkMs } from '../features/sign-in/sign-in-links.ts'
import { createVisitors } from '../features/sign-in/visitor.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import type { Core } from '../platform/feature/core.ts'
import type { ApiError } from '../platform/http/errors.ts'
import { createRateLimiter } from '../platform/http/rate-limit.ts'
import type { Route } from '../platform/http/route.ts'
import { createMailer, type Mailer } from '../platform/outgoing/mailer.ts'
import { frameContext, refusalPage } from '../platform/ui/answer-page.ts'
import { createAssets } from '../platform/ui/assets.ts'
import { publicRoots } from '../platform/ui/cookies.ts'
import { createSingleUse } from '../platform/ui/page-access.ts'
import { consoleRoutes } from '../platform/ui/serve-pages.ts'
import { consolePages, type PageServices } from './console-pages.ts'
import type { DemoFile } from './demo/demo-file.ts'
import type { ConsoleStart } from './greeting.ts'
import { openOperatorPages } from './open-operator-pages.ts'
import type { Payments } from './open-payments.ts'

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

/** What signs people in. */
const openSignIn = ({
  core,
  accounts,
  mailer,
  origin,
  monotonicMs,
}: {
  readonly core: Core
  readonly accounts: PageServices['accounts']
  /** Null where no mail is sent. */
  readonly mailer: Mailer | null
  readonly origin: () => string
  readonly monotonicMs: MonotonicClock
}) => {
  const { config, pool, clock, keys } = core
  const name = config.payments.merchantName
  const sessions = createSessions({ pool, clock })
  const once = createSingleUse({ pool, clock })
  const people = createPeople(core)
  const links = createLinks({ pool, clock })
  const codes = createCodes({ pool, clock })
  const passkeys = createPasskeys({ pool, clock, once, master: keys.master, origin })
  const signIn = createSignIn({ people, sessions, accounts })
  return {
    name,
    sessions,
    once,
    people,
    links,
    passkeys,
    signIn,
    signInByPasskey: createSignInByPasskey({ passkeys, people, signIn }),
    sendLink: mailer && createSendLink({ pool, links, mailer, origin, name }),
    mailedCodes: mailer && createMailedCodes({ codes, mailer, name }),
    signInLimits:
      config.rates === null
        ? null
        : {
            perEmail: createRateLimiter(signInRates.perEmail, monotonicMs),
            perAddress: createRateLimiter(signInRates.perAddress, monotonicMs),
          },
  }
}

/** What `openConsole` makes itself. */
type OwnServices =
  | keyof ReturnType<typeof openSignIn>
  | keyof ReturnType<typeof openOperatorPages>['services']
  | 'findAccount'
  | 'island'

/** The pages that people live in, with everything behind them. */
export const openConsole = (
  parts: Omit<PageServices, OwnServices> & {
    readonly core: Core
    readonly gateways: Payments['gateways']
    readonly projecting: Parameters<typeof openOperatorPages>[0]['projecting']
    /** Where people reach the console. */
    readonly origin: () => string
    /** Where the API is. */
    readonly site: () => string
    /** The mail server of stand-ins here; null where none run. */
    readonly sandboxSmtp: string | null
    readonly monotonicMs: MonotonicClock
  },
): Console => {
  const { core, accounts, origin, sandboxSmtp } = parts
  const { config, pool, clock, logger } = core
  const mail =
    config.console.mail ?? (sandboxSmtp === null ? null : { smtp: sandboxSmtp, from: sandboxSender })
  const mailer = mail && createMailer({ ...mail, logger })
  const assets = createAssets()
  const signIn = openSignIn({ ...parts, mailer })
  const { name, once, people, sessions } = signIn
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
  const operators = openOperatorPages(parts)
  const pages = consolePages({
    ...parts,
    ...signIn,
    ...operators.services,
    findAccount,
    island: assets.island,
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
      await operators.stop()
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
