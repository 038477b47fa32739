import { anyTargeting, type Line } from '../../../src/domain/exits/line.ts'
import type {
  Access,
  Admission,
  ConnectionAttempt,
  Denied,
  Exit,
  Exits,
  Route,
  Spending,
} from '../../../src/gateway/gateway-ports.ts'

export const plainLine: Line = {
  base: 'tester1',
  targeting: anyTargeting,
  session: null,
  limitMegabytes: null,
  set: null,
}

export const directExit: Exit = {
  exitId: 'exit_direct',
  via: { kind: 'direct', localAddress: null },
  sandbox: true,
  udp: true,
}

export type Account = Spending & {
  readonly taken: { up: number; down: number }
  left: number
  /** More can be spent. */
  topUp(bytes: number): void
  /** Calls that wait for more. */
  waiting(): number
  /** Ends all running tunnels. */
  end(why: Denied): void
  /** Whether an empty account waits for a top-up in place of ending. */
  patient: boolean
}

export const exhausted: Denied = {
  denied: true,
  status: 466,
  error: 'traffic_exhausted',
  detail: 'The traffic of the plan is used up.',
}

/** A budget in memory, counted by the contract. */
export const memorySpending = (bytes = Number.MAX_SAFE_INTEGER): Account => {
  const ended = new AbortController()
  let waiting: (() => void)[] = []
  const account: Account = {
    taken: { up: 0, down: 0 },
    left: bytes,
    patient: false,
    take: (wanted, direction) => {
      const granted = Math.min(wanted, account.left)
      account.left -= granted
      account.taken[direction] += granted
      return granted
    },
    giveBack: (given, direction) => {
      account.left += given
      account.taken[direction] -= given
    },
    more: async (_, least = 1) => {
      if (account.left >= least) return null
      if (!account.patient) return exhausted
      await new Promise<void>((resolve) => waiting.push(resolve))
      return null
    },
    ended: ended.signal,
    waiting: () => waiting.length,
    topUp: (more) => {
      account.left += more
      for (const go of waiting) go()
      waiting = []
    },
    end: (why) => ended.abort(why),
  }
  return account
}

export const wrongCredentials: Denied = {
  denied: true,
  status: 407,
  error: 'wrong_credentials',
  detail: 'User name or password is wrong.',
}

export type MemoryAccess = Access & {
  readonly attempts: ConnectionAttempt[]
  /** Of every admission that ended. */
  readonly closed: { readonly error: string | null; readonly host: string | null }[]
  open: number
  /** The answers of the next requests. */
  answer: (attempt: ConnectionAttempt) => Denied | null
  line: Line
  dedicated: Exit | null
}

export const username = 'tester1'
export const password = 'secret1'

/** Admits clients with the one user name and password. */
export const memoryAccess = (spending: Spending): MemoryAccess => {
  const access: MemoryAccess = {
    attempts: [],
    closed: [],
    open: 0,
    line: plainLine,
    dedicated: null,
    answer: ({ credentials }) =>
      credentials?.username === username && credentials.password === password ? null : wrongCredentials,
    admit: async (attempt) => {
      access.attempts.push(attempt)
      const denied = access.answer(attempt)
      if (denied) return denied
      access.open += 1
      let closed = false
      const admission: Admission = {
        denied: false,
        holder: 'pln_test',
        accountId: 'acc_test',
        line: access.line,
        dedicated: access.dedicated,
        spending,
        close: (outcome) => {
          if (closed) throw new Error('an admission was closed twice')
          closed = true
          access.open -= 1
          access.closed.push({ error: outcome.error, host: outcome.host })
        },
      }
      return admission
    },
  }
  return access
}

export type MemoryExits = Exits & {
  readonly outcomes: string[]
  /** The results of the next requests. */
  next: () => Exit | Denied
  /** Routes that were given and not closed. */
  open: number
  fallback: boolean
  stickyMinutesLeft: number | null
}

export const memoryExits = (exit: Exit = directExit): MemoryExits => {
  const exits: MemoryExits = {
    outcomes: [],
    open: 0,
    next: () => exit,
    fallback: false,
    stickyMinutesLeft: null,
    route: async () => {
      const chosen = exits.next()
      if ('denied' in chosen) return chosen
      let closed = false
      exits.open += 1
      const route: Route = {
        denied: false,
        exit: chosen,
        fallback: exits.fallback,
        stickyMinutesLeft: exits.stickyMinutesLeft,
        done: (outcome) => void exits.outcomes.push(outcome),
        close: () => {
          if (closed) throw new Error('a route was closed twice')
          closed = true
          exits.open -= 1
        },
      }
      return route
    },
  }
  return exits
}
