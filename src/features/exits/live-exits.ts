import type pg from 'pg'
import type { ExitRow } from '../../../projections/exits.ts'
import type { ExitTerms, ExitVia } from '../../domain/exits/events.ts'
import { createLogins, type Login, type LoginRef, type Logins } from '../../platform/vault/logins.ts'
import type { Vault } from '../../platform/vault/seal.ts'
import { type Candidate, candidatesOf, type ExitIndex, indexOf } from './candidates.ts'
import { deadOnAllMachines, type ExitHealth } from './exit-health.ts'
import { pinOf, type StickySessions } from './sticky-sessions.ts'

/** The sandbox's exits: one record, `exits`, which each start of the sandbox replaces. */
export type SandboxExits = {
  /** An id of the start of the sandbox. Each start has a new one. */
  readonly made: string
  readonly exits: readonly { readonly terms: ExitTerms; readonly login: Login | null }[]
  /** Port of `whoami.sandbox` on this machine. */
  readonly whoamiPort: number
  /**
   * The proxy on this machine that simulates the supplier of the demo's IPv6 addresses. The username is the address.
   */
  readonly supplier: { readonly port: number; readonly password: string }
}

/** The exits in memory, updated from the read model and from the reports of gateway processes. */
export type LiveExits = {
  /** Resolves when everything that was in the tables at the time of the call is in memory. */
  refresh(): Promise<void>
  /** As of the last refresh. */
  index(): ExitIndex
  /** Changes with every change of the index or of an exit's health. */
  version(): string
  /** The sandbox's other services, whether its exits are used or not; null: there is no sandbox. */
  sandbox(): Pick<SandboxExits, 'whoamiPort' | 'supplier'> | null
  /** Whether an operator configured exits. Then the sandbox's exits are not used. */
  hasOwn(): boolean
}

type HealthRow = {
  readonly exit_id: string
  readonly alive: boolean
  readonly problem: string | null
  readonly changed_at: string
}
type SessionRow = {
  readonly session_key: string
  readonly exit_key: string
  readonly round: number
  readonly started_at: string
  readonly expires_at: string
  readonly failed: boolean
  readonly changed_at: string
}
type ChangedRows = {
  readonly table: number
  readonly exits: readonly ExitRow[] | null
  readonly health: readonly HealthRow[] | null
  readonly sessions: readonly SessionRow[] | null
  /** Exits that are dead on all machines; null: this process probes its own machine. */
  readonly dead: readonly string[] | null
  readonly sandbox: SandboxExits | null
}

/** Transactions of other processes may commit late, so rows up to this much older are read again. Milliseconds. */
const overlapMs = 5_000
const epoch = '1970-01-01T00:00:00.000Z'

const latest = (times: readonly string[], before: string): string =>
  times.reduce((last, time) => (Date.parse(time) > Date.parse(last) ? time : last), before)
const withOverlap = (time: string): string =>
  new Date(Math.max(0, Date.parse(time) - overlapMs)).toISOString()

/**
 * Follows `read.exits` (also across its rebuild), `work.exit_health` and ended sessions with one statement for each
 * refresh. Refreshes must be polled, because most of this data is not in the log, so projections do not announce its
 * changes.
 */
export const createLiveExits = (dependencies: {
  readonly pool: pg.Pool
  readonly logins: Pick<ExitLogins, 'read'>
  readonly health: ExitHealth
  /** Null: this process chooses no exits. */
  readonly sticky: StickySessions | null
  /** Whether the sandbox's exits are used while there are no others. */
  readonly sandbox: boolean
}): LiveExits => {
  const { pool, logins, health, sticky } = dependencies
  const rows = new Map<string, ExitRow>()
  const candidatesByExit = new Map<string, readonly Candidate[]>()
  const healthSeen = new Map<string, string>()
  /** Exits on machines that are dead on all of them. */
  let deadLocally: ReadonlySet<string> = new Set()
  let table = 0
  let revision = -1
  let healthSince = epoch
  let sessionsSince = epoch
  let sandbox: SandboxExits | null = null
  let current: ExitIndex = indexOf([], [], [])
  let version = 0
  const isOwn = (): boolean => [...rows.values()].some(({ state }) => state !== 'removed')

  const build = (): void => {
    const candidatesInState = (state: ExitRow['state']): readonly Candidate[] =>
      [...rows.values()].flatMap((row) =>
        row.state === state ? (candidatesByExit.get(row.exitId) ?? []) : [],
      )
    const sandboxCandidates =
      isOwn() || !dependencies.sandbox
        ? []
        : (sandbox?.exits ?? []).flatMap(({ terms, login }) => candidatesOf(terms, login, true))
    const covers = [...rows.values()].flatMap(({ terms }) => terms.covers)
    current = indexOf([...candidatesInState('live'), ...sandboxCandidates], candidatesInState('drained'), [
      ...covers,
      ...sandboxCandidates.map(({ coverage: cover }) => cover),
    ])
    version += 1
  }

  const storeExits = async (changed: readonly ExitRow[]): Promise<void> => {
    const storedLogins = await logins.read(changed.flatMap(({ terms }) => loginsOf(terms)))
    for (const row of changed) {
      const { credentialId } = row.terms
      const login = credentialId === null ? null : storedLogins.get(credentialId)
      rows.set(row.exitId, row)
      // An exit whose login could not be read gets no candidates.
      candidatesByExit.set(row.exitId, login === undefined ? [] : candidatesOf(row.terms, login, false))
      revision = Math.max(revision, row.revision)
    }
  }

  const load = async (): Promise<void> => {
    const { rows: found } = await pool.query<ChangedRows>({
      name: 'live-exits',
      text: `
        select 'read.exits'::regclass::oid::bigint as table,
               (select jsonb_agg(jsonb_build_object('exitId', exit_id, 'state', state, 'terms', terms, 'revision', revision))
                  from read.exits exit
                 where exit.revision > case when $1::bigint = 'read.exits'::regclass::oid::bigint then $2::bigint else -1 end) as exits,
               (select jsonb_agg(health) from work.exit_health health where health.changed_at > $3::timestamptz) as health,
               (select jsonb_agg(to_jsonb(session)) from work.sticky_sessions session
                 where $4::timestamptz is not null and session.changed_at > $4::timestamptz) as sessions,
               case when $4::timestamptz is null then (${deadOnAllMachines}) end as dead,
               (select body from work.sandbox_records
                 where $5::boolean and kind = 'exits' and id = 'exits' and body->>'made' is distinct from $6::text) as sandbox`,
      values: [
        table,
        revision,
        withOverlap(healthSince),
        sticky === null ? null : withOverlap(sessionsSince),
        dependencies.sandbox,
        sandbox?.made ?? null,
      ],
    })
    const changedRows = found[0]
    if (changedRows === undefined) return
    const isTableReplaced = changedRows.table !== table
    if (isTableReplaced) {
      rows.clear()
      candidatesByExit.clear()
      revision = -1
    }
    table = changedRows.table
    if (changedRows.exits) await storeExits(changedRows.exits)
    if (changedRows.sandbox) sandbox = changedRows.sandbox
    if (changedRows.health) {
      // Rows that were read before must not overwrite newer findings of this process.
      const changedHealth = changedRows.health.filter((row) => healthSeen.get(row.exit_id) !== row.changed_at)
      for (const row of changedHealth) healthSeen.set(row.exit_id, row.changed_at)
      health.applyChanges(
        changedHealth.map(({ exit_id: exitId, alive, problem }) => ({ exitId, alive, problem })),
      )
      healthSince = latest(
        changedRows.health.map((row) => row.changed_at),
        healthSince,
      )
    }
    if (changedRows.dead) {
      const dead = new Set(changedRows.dead)
      const back = [...deadLocally].filter((exitId) => !dead.has(exitId))
      health.applyChanges([
        ...back.map((exitId) => ({ exitId, alive: true, problem: null })),
        ...changedRows.dead.map((exitId) => ({ exitId, alive: false, problem: 'it works on no machine' })),
      ])
      deadLocally = dead
    }
    if (changedRows.sessions) {
      sticky?.applyChanges(changedRows.sessions.map((row) => ({ key: row.session_key, pin: pinOf(row) })))
      sessionsSince = latest(
        changedRows.sessions.map((row) => row.changed_at),
        sessionsSince,
      )
    }
    if (isTableReplaced || changedRows.exits || changedRows.sandbox) build()
  }

  let running: Promise<void> = Promise.resolve()
  // Refreshes run one after another, so that an older row never replaces a newer one.
  const refresh = (): Promise<void> => {
    const next = running.then(load)
    running = next.catch(() => undefined)
    return next
  }

  return {
    index: () => current,
    version: () => `${version}.${health.version()}`,
    sandbox: () => sandbox,
    hasOwn: isOwn,
    refresh,
  }
}

/** The place where an exit's login is used; null: the exit needs no login. */
export const placeOf = (via: ExitVia): string | null => {
  switch (via.kind) {
    case 'direct':
    case 'prefix':
      return null
    case 'template':
      return `${via.protocol} ${via.host}:${via.port}`
    default:
      return `${via.kind} ${via.host}:${via.port}`
  }
}

/** References to the login of an exit; empty for an exit without one. */
export const loginsOf = ({
  via,
  credentialId,
}: Pick<ExitTerms, 'via' | 'credentialId'>): readonly LoginRef[] => {
  const address = placeOf(via)
  return credentialId === null || address === null ? [] : [{ credentialId, place: address }]
}

export type ExitLogins = Logins

export const createExitLogins = (dependencies: {
  readonly pool: pg.Pool
  readonly vault: Vault
}): ExitLogins =>
  createLogins(dependencies, {
    table: 'vault.exit_credentials',
    owner: 'exit_id',
    context: 'exit login',
    prefix: 'exc',
  })
