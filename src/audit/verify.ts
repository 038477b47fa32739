import type pg from 'pg'
import type { LogSealed } from '../domain/seals/events.ts'
import type { Clock } from '../kernel/clock.ts'
import type { CustomerIdOf } from '../kernel/external-id.ts'
import type { EventLog, StoredEvent } from '../platform/eventstore/port.ts'
import type { ReadModelGroup } from '../platform/projections/read-model.ts'
import type { Keys } from '../platform/vault/keys.ts'
import { createAttempt } from './checks/attempt.ts'
import { checkAppendOnly, checkGuards } from './checks/database-guards-check.ts'
import { createEventReader, readable } from './checks/event-reader.ts'
import { createFindings, eventLocationOf, type Finding } from './checks/finding.ts'
import { checkUnfinishedWork, rememberQueuedWork } from './checks/open-ends-check.ts'
import { createPeriodCheck } from './checks/period-check.ts'
import { createPoisons, readViolations } from './checks/poison-check.ts'
import {
  createDerivation,
  createRederivation,
  type GroupSummary,
  type Rederivation,
} from './checks/rederive.ts'
import { openScratch, planForWholeTables } from './checks/scratch.ts'
import { createSealCheck, type SealSummary } from './checks/seal-check.ts'
import { type AcknowledgedEvents, checkRecordedEarly, createSequenceCheck } from './checks/sequence-check.ts'
import { createSignatureFindings } from './checks/signature-check.ts'
import { createTrafficCheck, type UnloggedTraffic } from './checks/traffic-check.ts'
import {
  checkChats,
  checkConsole,
  checkCustomers,
  checkDepositPages,
  checkLogins,
  checkVault,
  checkWhitelist,
  type VaultSummary,
} from './checks/vault-check.ts'
import { checkRuns, type RunsChain } from './checks/verification-chain.ts'
import { rules } from './invariants/invariants.ts'
import { createDigestStore } from './seals/digests.ts'
import type { SignatureSummary } from './signatures/check-signatures.ts'

export type VerifyPhase = 'log' | 'order' | 'projections'

export type VerifyProgress = {
  readonly phase: VerifyPhase
  /** Of `total`: positions of the log, or read tables. */
  readonly done: number
  readonly total: number
  /** Events, or read tables, checked so far. */
  readonly count: number
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

export type VerifyDeps = {
  readonly pool: pg.Pool
  readonly log: EventLog
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
  /** Called once a second with the sessions that the verification waits for. */
  readonly onWait?: (text: string) => void
  readonly signal?: AbortSignal
}

/** The summary of a log whose seals could not be checked. */
const emptySealSummary = (events: number): SealSummary => ({
  seals: 0,
  sealedThrough: 0,
  unsealed: events,
  digest: '',
  publicKey: null,
  exported: null,
})

/** A smaller page needs less memory. A larger page writes hot rows less often. */
const pageSize = 2_000

/**
 * Verifies the whole log in one read: its order, its seals and all data derived from it. A live server may run at the
 * same time. The log is checked up to its end when the reader reaches it, and each group of read models up to its
 * position at that time. A check that cannot run, for instance because a table was changed, is a finding; the other
 * checks continue.
 * @throws the reason of the signal, and an error when Postgres is unreachable
 */
export const verifyLog = async (deps: VerifyDeps, options: VerifyOptions): Promise<VerifyResult> => {
  const { pool, log, groups, logInPostgres } = deps
  const { runId, publicKey, exported, clock = null, onProgress = () => undefined, signal } = options
  const findings = createFindings()
  const logId = await log.logId()
  const scratch = await openScratch(pool, runId, options.onWait)
  const stopSignal = AbortSignal.any([scratch.signal, ...(signal ? [signal] : [])])
  const attempt = createAttempt(findings, stopSignal)
  try {
    const { schema } = scratch
    const seals = await attempt({ check: 'seals' }, () =>
      createSealCheck({ log, store: createDigestStore(pool, logId), findings, publicKey, exported }),
    )
    const signatures = logInPostgres
      ? await attempt({ check: 'signatures' }, () =>
          createSignatureFindings({ pool, log, findings, publicKey }),
        )
      : null
    const locationsSession = await scratch.session()
    const { client } = locationsSession
    await attempt({ check: 'invariants' }, () => rememberQueuedWork(client, schema))
    const sequence = await attempt({ check: 'revisions' }, () =>
      createSequenceCheck({ client, schema, log, findings, gapless: logInPostgres, clock }),
    )
    const traffic = await attempt({ check: 'traffic' }, () =>
      createTrafficCheck({ client, schema, log, findings }),
    )
    const rulesSession = await scratch.session()
    const poisons = createPoisons()
    const ruleDerivation = await attempt({ check: 'invariants' }, () =>
      createDerivation(rulesSession, schema, rules, (poison) => poisons.ofRules(poison)),
    )
    const rederivations: Rederivation[] = []
    for (const group of groups) {
      const rederivation = await attempt({ group: group.name }, () =>
        createRederivation({
          scratch,
          log,
          group,
          findings,
          onPoison: (poison) => poisons.ofModels(poison),
        }),
      )
      if (rederivation !== null) rederivations.push(rederivation)
    }
    const periods = createPeriodCheck(findings)
    const reader = createEventReader()
    let events = 0
    let position = 0
    let target = await log.head()

    const checkContent = async (page: readonly StoredEvent[]): Promise<void> => {
      const readEvents = reader.read(page, events + 1)
      for (const { stored, ordinal, problem } of readEvents)
        if (problem !== null)
          findings.add({
            where: 'event',
            check: 'content',
            event: eventLocationOf(stored, ordinal),
            problem,
          })
      periods.take(readEvents)
      const readableEvents = readable(readEvents)
      await attempt({ check: 'invariants' }, async () => ruleDerivation?.take(readableEvents))
      for (const group of rederivations)
        await attempt({ group: group.group }, () => group.take(readableEvents))
    }

    const tableCount = groups.flatMap(({ models }) => models.flatMap((model) => model.tables)).length
    let comparedCount = 0
    const reportTable = (): void => {
      comparedCount += 1
      onProgress({ phase: 'projections', done: comparedCount, total: tableCount, count: comparedCount })
    }
    const report = (phase: VerifyPhase, done: number, count: number, total = target): void =>
      onProgress({ phase, done, total, count })
    report('log', 0, 0)
    const readPage = (after: number): Promise<readonly StoredEvent[]> => {
      const page = log.readAll(after, pageSize)
      page.catch(() => undefined) // awaited later; avoids an unhandled rejection before that
      return page
    }
    let nextPage = readPage(0)
    for (;;) {
      stopSignal.throwIfAborted()
      const page = (await attempt({ check: 'positions' }, () => nextPage)) ?? []
      const last = page.at(-1)
      if (last !== undefined) {
        if (page.length === pageSize) nextPage = readPage(last.position)
        await attempt({ check: 'seals' }, async () => seals?.take(page, events + 1))
        await attempt({ check: 'signatures' }, async () => signatures?.take(page, events + 1))
        await attempt({ check: 'revisions' }, async () => sequence?.take(page, events + 1))
        await checkContent(page)
        events += page.length
        position = last.position
        target = Math.max(target, position)
        report('log', position, events)
      }
      if (page.length < pageSize) break
    }
    report('order', 0, 0)
    const sealSummary = await attempt({ check: 'seals' }, async () => seals?.end(events))
    const signatureSummary = await attempt({ check: 'signatures' }, async () => signatures?.end())
    await attempt({ check: 'revisions' }, async () => sequence?.written())
    await attempt({ check: 'invariants' }, async () => ruleDerivation?.written())
    await planForWholeTables(client, schema)
    const sequenceSummary = await attempt({ check: 'revisions' }, async () => sequence?.end(events))
    const acknowledged = await attempt({ check: 'times' }, () => checkRecordedEarly(client, schema, findings))
    await attempt({ check: 'invariants' }, async () => {
      await readViolations(client, schema, findings)
      await checkUnfinishedWork(client, schema, findings)
    })
    const { customerIdOf, keys } = options
    const vault: VaultSummary[] = []
    await attempt({ check: 'vault' }, async () => {
      vault.push(...(await checkVault(client, schema, findings)))
      if (customerIdOf !== undefined) vault.push(await checkCustomers(client, customerIdOf, findings))
      vault.push(await checkWhitelist(client, schema, log, findings))
      if (keys === undefined) return
      vault.push(...(await checkConsole(client, keys, findings)))
      vault.push(await checkDepositPages(client, schema, keys, findings))
      vault.push(await checkChats(client, keys, findings))
      vault.push(...(await checkLogins(pool, client, keys, findings)))
    })
    const unloggedTraffic = await attempt({ check: 'traffic' }, async () => traffic?.end())
    const runs = await attempt({ check: 'verifications' }, () => checkRuns(pool, null))
    for (const problem of runs?.findings ?? [])
      findings.add({ where: 'log', check: 'verifications', problem })
    if (logInPostgres) await attempt({ check: 'append-only' }, () => checkAppendOnly(pool, findings))
    await attempt({ check: 'guards' }, () => checkGuards(pool, findings))
    report('projections', 0, 0, tableCount)
    const groupSummaries: GroupSummary[] = []
    for (const group of rederivations) {
      const summary = await attempt({ group: group.group }, () => group.compare(reportTable))
      if (summary !== null) groupSummaries.push(summary)
    }
    // Problems of read models are complete only now: they are folded up to the position of the live tables.
    await attempt({ check: 'content' }, () => poisons.report(client, schema, findings))
    return {
      logId,
      position,
      events,
      streams: sequenceSummary?.streams ?? 0,
      seals: sealSummary ?? emptySealSummary(events),
      signatures: signatureSummary ?? null,
      vault,
      runs: runs ?? { links: 0, digest: null, findings: [] },
      unloggedTraffic: unloggedTraffic ?? { bytes: 0, plans: 0 },
      groups: groupSummaries,
      acknowledged: acknowledged ?? { count: 0, first: [] },
      findings: findings.list(),
      findingCount: findings.count,
    }
  } finally {
    await scratch.close()
  }
}
