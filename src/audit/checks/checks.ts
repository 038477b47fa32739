import type pg from 'pg'
import type { LogSealed } from '../../domain/seals/events.ts'
import { readPeriodEnds } from '../../features/finance/index.ts'
import { utcCalendar } from '../../kernel/calendar.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { RecordedEvent } from '../../kernel/event.ts'
import type { CustomerIdOf } from '../../kernel/external-id.ts'
import type { EventLog, StoredEvent } from '../../platform/eventstore/port.ts'
import { readCheckpoint } from '../../platform/projections/checkpoint.ts'
import type { ReadModelGroup } from '../../platform/projections/read-model.ts'
import type { Keys } from '../../platform/vault/keys.ts'
import { invariantGroup } from '../invariants/invariants.ts'
import { createDigestStore, type DigestStore } from '../seals/digests.ts'
import type { SignatureSummary } from '../signatures/check-signatures.ts'
import { checkAppendOnly, checkGuards } from './database-guards-check.ts'
import type { ReadEvent } from './event-reader.ts'
import {
  type CheckName,
  eventLocationOf,
  type Finding,
  type Findings,
  type Poisons,
  readViolations,
} from './finding.ts'
import { checkUnfinishedWork, rememberQueuedWork } from './open-ends-check.ts'
import {
  checkRecordedHours,
  checkRuns,
  createMeteredCheck,
  createPeriodCheck,
  createTrafficCheck,
  type RunsChain,
  type UnloggedTraffic,
} from './record-checks.ts'
import { createRederivation, type GroupSummary, type Rederivation, type Scratch } from './rederive.ts'
import { createSealCheck, createSignatureFindings, type SealSummary } from './seal-check.ts'
import {
  type AcknowledgedEvents,
  checkIds,
  checkRecordedEarly,
  checkRepeatedIds,
  createPositionCheck,
  createSequenceCheck,
} from './sequence-check.ts'
import { type VaultSummary, vaultChecks } from './vault-check.ts'

export type VerifyProgress = {
  readonly phase: 'log' | 'order' | 'projections'
  /** Of `total`: positions of the log, or read tables. */
  readonly done: number
  readonly total: number
  /** Events, or read tables, checked so far. */
  readonly count: number
}

export type VerifyDependencies = {
  readonly pool: pg.Pool
  /** Connections with the auditor's role, for the tables that the log gives; default: `pool`. */
  readonly auditorPool?: pg.Pool
  readonly log: EventLog
  /** With the group of the invariants, the tables of the auditor are compared, too. */
  readonly groups: readonly ReadModelGroup[]
  /** Whether the log is in this Postgres, which allows further checks. */
  readonly logInPostgres: boolean
}

export type VerifyOptions = {
  readonly runId: string
  /** The key that must have signed. */
  readonly publicKey: string
  readonly exported: readonly LogSealed['data'][] | null
  /** Derives the ids of customers; omitted: the resellers' own ids of customers are not checked. */
  readonly customerIdOf?: CustomerIdOf
  /** The keys that sign sessions and links; omitted: those rows are not checked. */
  readonly keys?: Pick<Keys, 'master'>
  /** Events with a later time than this clock are in the future; omitted: only the seals are compared. */
  readonly clock?: Clock
  readonly onProgress?: (progress: VerifyProgress) => void
  /** Called when the run has its lock, before anything is read. */
  readonly onLocked?: () => Promise<void>
  /** Called once a second with the sessions that the verification waits for. */
  readonly onWait?: (text: string) => void
  readonly signal?: AbortSignal
}

export type VerifyResult = {
  /** The verified log, and the position up to which all its events were verified. */
  readonly logId: string
  readonly position: number
  readonly events: number
  readonly streams: number
  readonly seals: SealSummary
  /** Null when the log is not in this Postgres: such a log has no signatures. */
  readonly signatures: SignatureSummary | null
  readonly vault: readonly VaultSummary[]
  /** The chain of earlier verifications. */
  readonly runs: RunsChain
  readonly unloggedTraffic: UnloggedTraffic
  readonly groups: readonly GroupSummary[]
  /** Events that operators acknowledged and that are therefore not findings. */
  readonly acknowledged: AcknowledgedEvents
  /** In the order of the log, at most a hundred per check; empty when nothing is wrong. */
  readonly findings: readonly Finding[]
  readonly findingCount: number
}

/** The parts of the result that checks fill in. */
type CheckResults = {
  -readonly [Part in
    | 'streams'
    | 'signatures'
    | 'runs'
    | 'unloggedTraffic'
    | 'acknowledged']: VerifyResult[Part]
} & {
  /** Null: the seals could not be checked. */
  seals: SealSummary | null
  readonly vault: VaultSummary[]
  readonly groups: GroupSummary[]
}

/** The subject of a step: one check of the log, a part of it that runs by itself, or one group of read models. */
export type StepOf =
  | { readonly check: CheckName }
  | { readonly check: CheckName; readonly of: string }
  | { readonly group: string }

/**
 * Runs a step. Returns null when the step cannot run; this adds a finding, and later steps of that check or group are
 * skipped.
 * @throws when the verification was stopped, or when Postgres is unreachable
 */
export type Attempt = <Value>(stepOf: StepOf, step: () => Promise<Value>) => Promise<Value | null>

/** The context of the checks of one verification. */
export type CheckContext = VerifyDependencies &
  VerifyOptions & {
    readonly logId: string
    readonly findings: Findings
    readonly attempt: Attempt
    readonly scratch: Scratch
    readonly schema: string
    /** The session of the table `event_places`. At the end of the log it also reads the tables of the rules. */
    readonly client: pg.Client
    readonly poisons: Poisons
    readonly results: CheckResults
    readonly report: (progress: VerifyProgress) => void
  }

/** Consecutive events of the log, as stored and decoded. */
type LogPage = {
  readonly stored: readonly StoredEvent[]
  /** The ordinal of the first event: 1 for the first of the log. */
  readonly firstOrdinal: number
  readonly decoded: readonly ReadEvent[]
  /** The events that can be read. */
  readonly readable: readonly RecordedEvent[]
}

/** A check in one verification. */
export type CheckRun = {
  /** Takes the next events of the log. */
  page?(page: LogPage): unknown
  /** Resolves when the tables that the check fills are complete. Called after the last page. */
  written?(): Promise<unknown>
  /** Called after the tables of all checks are complete. */
  end?(events: number): Promise<unknown>
}

export type Check = {
  readonly name: CheckName
  /** What holds when the check has no finding. */
  readonly proves: string
  /** Only of a log in this Postgres. */
  readonly onlyPostgresLog?: true
  /** Called before the first page. */
  open(context: CheckContext): Promise<CheckRun> | CheckRun
}

/** Without them the seals still show what was changed, and less exactly where. */
const noDigests: Pick<DigestStore, 'rows' | 'end'> = {
  rows: async function* () {},
  end: async () => null,
}

/** All checks, in the order in which they take a page and in which they end. */
export const checks: readonly Check[] = [
  {
    name: 'seals',
    proves:
      'No event up to the last seal was changed, removed, added or moved. The seals are signed by the expected key, and equal the exported seals.',
    open: async ({ log, pool, logId, findings, publicKey, exported, results, attempt }) => {
      const digests = createDigestStore(pool, logId)
      const canRead = await attempt({ check: 'seals', of: 'the stored digests' }, async () => {
        await digests.end()
        return true
      })
      const store = canRead ? digests : noDigests
      const seals = await createSealCheck({ log, store, findings, publicKey, exported })
      return {
        page: ({ stored, firstOrdinal }) => seals.take(stored, firstOrdinal),
        end: async (events) => {
          results.seals = await seals.end(events)
        },
      }
    },
  },
  {
    name: 'signatures',
    proves: 'Each event is signed by a process that the sealing key introduced.',
    onlyPostgresLog: true,
    open: async ({ pool, log, findings, publicKey, results }) => {
      const signatures = await createSignatureFindings({ pool, log, findings, publicKey })
      return {
        page: ({ stored, firstOrdinal }) => signatures.take(stored, firstOrdinal),
        end: async () => {
          results.signatures = await signatures.end()
        },
      }
    },
  },
  {
    name: 'positions',
    proves: 'Positions rise, in a log in Postgres without gaps.',
    open: ({ findings, logInPostgres }) => {
      const checkPositions = createPositionCheck(findings, logInPostgres)
      return { page: ({ stored, firstOrdinal }) => checkPositions(stored, firstOrdinal) }
    },
  },
  {
    name: 'revisions',
    proves: 'The revisions of each stream count from 0.',
    open: async ({ client, schema, log, findings, clock = null, results }) => {
      const sequence = await createSequenceCheck({ client, schema, log, findings, clock })
      return {
        page: ({ stored, firstOrdinal }) => sequence.take(stored, firstOrdinal),
        written: sequence.written,
        end: async () => {
          results.streams = await sequence.end()
        },
      }
    },
  },
  {
    name: 'ids',
    proves: 'Event ids are unique UUIDs.',
    open: ({ client, schema, findings }) => ({
      page: ({ stored, firstOrdinal }) => checkIds(stored, firstOrdinal, findings),
      end: () => checkRepeatedIds(client, schema, findings),
    }),
  },
  {
    name: 'times',
    proves:
      'No event is recorded before its predecessor in the stream, after now, or after the first seal that covers it. Acknowledged events are listed.',
    open: ({ client, schema, findings, results }) => ({
      end: async () => {
        results.acknowledged = await checkRecordedEarly(client, schema, findings)
      },
    }),
  },
  {
    name: 'periods',
    proves: 'The figures and digests of each closed month equal those of its events.',
    open: async ({ log, findings }) => {
      // The calendar matters only for months that were not cut off. None of them is closed.
      const periods = createPeriodCheck(findings, await readPeriodEnds(log, utcCalendar))
      return { page: ({ decoded }) => periods.take(decoded) }
    },
  },
  {
    name: 'invariants',
    proves:
      'Each event was allowed by the events before it: orders, refunds, stock, plans, prices, authority and more. The work that an event requires was finished in time.',
    open: async ({ client, schema, scratch, log, groups, findings, poisons, attempt, results }) => {
      const isQueueKnown = await attempt({ check: 'invariants', of: 'queued work' }, () =>
        rememberQueuedWork(client, schema),
      )
      const ofAuditor = { group: invariantGroup.name }
      // Nothing is compared before an auditor has made its tables. Its first start begins with an empty checkpoint.
      const checkpoint = groups.includes(invariantGroup)
        ? await attempt(ofAuditor, () => readCheckpoint(client, invariantGroup.name))
        : null
      const isLive =
        checkpoint !== null && (checkpoint.position > 0 || Object.keys(checkpoint.definitions).length > 0)
      const derivation = await createRederivation({
        scratch,
        log,
        group: invariantGroup,
        findings,
        onPoison: poisons.take,
        isLive,
      })
      let position = 0
      return {
        page: async ({ stored, readable }) => {
          await derivation.take(readable)
          position = stored.at(-1)?.position ?? position
        },
        written: async () => {
          // Each table is compared where the auditor is, before the rest of the log is folded.
          if (isLive) {
            const summary = await attempt(ofAuditor, () => derivation.compare(() => undefined))
            if (summary !== null) results.groups.push(summary)
          }
          await derivation.complete(position)
        },
        end: async () => {
          await readViolations(client, schema, findings, 'invariants')
          await checkUnfinishedWork(client, schema, findings, isQueueKnown ?? false)
        },
      }
    },
  },
  {
    name: 'postings',
    proves:
      "Each money event sums to zero in each book, and the service's book agrees with the resellers' own.",
    open: ({ client, schema, findings }) => ({
      end: () => readViolations(client, schema, findings, 'postings'),
    }),
  },
  {
    name: 'vault',
    proves:
      'Stored secrets and personal data equal what events commit to, or are signed by the service: keys, e-mail addresses, passkeys, credentials, sessions, whitelists.',
    open: (context) => ({
      end: async () => {
        for (const { table, check } of vaultChecks(context)) {
          const summary = await context.attempt({ check: 'vault', of: table }, check)
          if (summary !== null) context.results.vault.push(summary)
        }
      },
    }),
  },
  {
    name: 'traffic',
    proves:
      'The traffic counters of plans are not below the traffic in the log and in the metered hours, each belongs to a plan, and the metered hours are not below the records and the statistics of gateways.',
    open: async ({ client, schema, scratch, log, findings, results, attempt }) => {
      const { client: live } = await scratch.liveSession()
      const traffic = await createTrafficCheck({ client, schema, log, findings })
      const ofMetered = { check: 'traffic', of: 'traffic.metered_hours' } as const
      const metered = await attempt(ofMetered, () => createMeteredCheck({ client, live, schema, findings }))
      return {
        page: ({ decoded }) => metered?.take(decoded),
        end: async () => {
          results.unloggedTraffic = await traffic.end()
          if (metered !== null) await attempt(ofMetered, metered.end)
          await attempt(ofMetered, () => checkRecordedHours({ live, findings }))
        },
      }
    },
  },
  {
    name: 'verifications',
    proves:
      'No record of an earlier verification was changed, removed or inserted, and no table of one is left.',
    open: ({ pool, findings, results }) => ({
      end: async () => {
        results.runs = await checkRuns(pool, null)
        for (const problem of results.runs.findings) findings.addForLog('verifications', problem)
      },
    }),
  },
  {
    name: 'append-only',
    proves: 'No event is at a position that readers skip, and the head is at the last event.',
    onlyPostgresLog: true,
    open: ({ pool, findings }) => ({ end: () => checkAppendOnly(pool, findings) }),
  },
  {
    name: 'guards',
    proves:
      'Triggers, functions, constraints, indexes, owners and rights of the database are those of the migrations.',
    open: ({ pool, findings }) => ({ end: () => checkGuards(pool, findings) }),
  },
  {
    name: 'projections',
    proves: 'Each read table, also of the auditor, equals, cell by cell, the table that the log gives.',
    open: async (context) => {
      const { scratch, log, findings, attempt, poisons, results, report } = context
      const groups = context.groups.filter((group) => group !== invariantGroup)
      const rederivations: Rederivation[] = []
      for (const group of groups) {
        const rederivation = await attempt({ group: group.name }, () =>
          createRederivation({ scratch, log, group, findings, onPoison: poisons.take }),
        )
        if (rederivation !== null) rederivations.push(rederivation)
      }
      const total = groups.flatMap(({ models }) => models.flatMap((model) => model.tables)).length
      let count = 0
      return {
        page: async ({ readable }) => {
          for (const group of rederivations) await attempt({ group: group.group }, () => group.take(readable))
        },
        end: async () => {
          report({ phase: 'projections', done: 0, total, count: 0 })
          const onTable = (): void => {
            count += 1
            report({ phase: 'projections', done: count, total, count })
          }
          for (const group of rederivations) {
            const summary = await attempt({ group: group.group }, () => group.compare(onTable))
            if (summary !== null) results.groups.push(summary)
          }
        },
      }
    },
  },
  {
    name: 'content',
    proves: 'Each event can be read, and has the fields of its type.',
    // Last: read models are folded up to the position of the live tables only when these are compared.
    open: ({ client, schema, findings, poisons }) => ({
      page: ({ decoded }) => {
        for (const { stored, ordinal, problem } of decoded)
          if (problem !== null) findings.addForEvent('content', eventLocationOf(stored, ordinal), problem)
      },
      end: () => poisons.report(client, schema, findings),
    }),
  },
]
