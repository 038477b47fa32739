import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Mailer } from '../../platform/outgoing/mailer.ts'
import type { Sessions } from '../../platform/ui/page.ts'
import { createSingleUse, type SingleUse } from '../../platform/ui/page-access.ts'
import type { Accounts, FindAccount } from '../accounts/index.ts'
import { confirmPages, passkeyPages } from './passkey-pages.ts'
import { createPasskeys } from './passkeys.ts'
import { createPeople, type People } from './people.ts'
import { sessionPages, timePages, viewPages } from './session-pages.ts'
import { createSessions } from './sessions.ts'
import {
  createMailedCodes,
  createSendLink,
  createSignIn,
  createSignInByPasskey,
  createSignInLimits,
} from './sign-in.ts'
import { createCodes, createLinks } from './sign-in-links.ts'
import { signInLinkPages, signInPages } from './sign-in-pages.ts'
import { createVisitors } from './visitor.ts'

type SignInFeature = Feature & {
  readonly people: People
  readonly sessions: Sessions
  /** The person of a session and their permissions. */
  readonly visitorOf: ReturnType<typeof createVisitors>
  /** Records which forms were submitted. */
  readonly once: SingleUse
}

export const open = (
  core: ServerCore,
  needs: {
    /** Null: no mail is sent. */
    readonly mailer: Mailer | null
    /** Whether sign-in attempts are rate limited. */
    readonly limited: boolean
    /** The name of the service on its pages. */
    readonly name: string
    /** The origin of the console. */
    readonly origin: () => string
    readonly accounts: Accounts
    readonly findAccount: FindAccount
  },
): SignInFeature => {
  const { pool, clock, keys, logger, monotonicMs } = core
  const { mailer, limited, name, origin, accounts, findAccount } = needs
  const sessions = createSessions(core)
  const once = createSingleUse({ pool, clock })
  const people = createPeople(core)
  const links = createLinks(core)
  const passkeys = createPasskeys({ pool, clock, once, master: keys.master, people, logger, origin })
  const signIn = createSignIn({ people, sessions, accounts })
  const signInByPasskey = createSignInByPasskey({ passkeys, signIn })
  const sendLink = mailer && createSendLink({ accounts, links, mailer, origin, name })
  const mailedCodes = mailer && createMailedCodes({ codes: createCodes(core), mailer, name })
  const signInLimits = limited ? createSignInLimits(monotonicMs) : null
  return {
    people,
    sessions,
    visitorOf: createVisitors({ pool, people, accounts }),
    once,
    pages: [
      ...viewPages({ people, sessions, findAccount }),
      ...sessionPages({ people, sessions }),
      ...passkeyPages({ passkeys, people, sessions }),
      ...confirmPages({ passkeys, mailedCodes, people, sessions, signInLimits }),
      ...signInPages({ name, sendLink, passkeys, signInByPasskey, signInLimits }),
      ...signInLinkPages({ name, links, signIn, signInLimits }),
      ...timePages,
    ],
  }
}
