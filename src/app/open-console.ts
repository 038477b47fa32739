import { createAssets } from '../console/frame/assets.ts'
import { createMailer } from '../console/mail/mailer.ts'
import { refusalPage, surroundings } from '../console/pages/answer.ts'
import { publicRoots } from '../console/pages/origin.ts'
import { consoleRoutes } from '../console/pages/serve.ts'
import { createVisitors } from '../console/pages/visitor.ts'
import { createPeople } from '../console/people/service.ts'
import { createCodes } from '../console/session/codes.ts'
import { createLinks } from '../console/session/links.ts'
import { createOnce } from '../console/session/once.ts'
import { createPasskeys } from '../console/session/passkeys.ts'
import { createSessions } from '../console/session/sessions.ts'
import { type SignInDeps, signInRates } from '../console/sign-in/desk.ts'
import type { MonotonicClock } from '../kernel/clock.ts'
import type { AccountId } from '../kernel/ids.ts'
import { accountOfEmail, emailOf } from '../market/accounts/vault.ts'
import type { ApiError } from '../platform/http/errors.ts'
import { createRateLimiter } from '../platform/http/rate-limit.ts'
import type { Route } from '../platform/http/route.ts'
import { consolePages, type PagesDeps } from './console-pages.ts'
import type { Core } from './core.ts'
import { openStaffRooms, type StaffParts } from './staff-rooms.ts'

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
    readonly projecting: StaffParts['projecting']
    readonly gateways: StaffParts['gateways']
    readonly callbackUrl: StaffParts['callbackUrl']
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
  const once = createOnce({ pool, clock })
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
  const staffRooms = openStaffRooms({ ...parts, people, findAccount })
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
    refused: { under: ['/console', ...publicRoots], refused: refusalPage(surroundings({ assets, name })) },
    stop: async () => {
      await Promise.all([staffRooms.operator.rebuilds.stop(), staffRooms.finance.work.stop()])
      await mailer?.close()
    },
  }
}
