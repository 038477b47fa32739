import type { StoredEvent } from '../platform/eventstore/port.ts'
import { isConnectionLost } from '../platform/postgres/errors.ts'
import {
  type Attempt,
  type CheckContext,
  type CheckRun,
  checks,
  type StepOf,
  type VerifyDependencies,
  type VerifyOptions,
  type VerifyResult,
} from './checks/checks.ts'
import { createEventReader, readable } from './checks/event-reader.ts'
import {
  type CheckName,
  createFindings,
  createPoisons,
  type Finding,
  type Findings,
} from './checks/finding.ts'
import { openScratch, planForWholeTables } from './checks/rederive.ts'
import type { SealSummary } from './checks/seal-check.ts'

const couldNotRun = (stepOf: StepOf, error: unknown): Finding => {
  const part = 'of' in stepOf ? ` of ${stepOf.of}` : ''
  const problem = `the check${part} could not run: ${error instanceof Error ? error.message : String(error)}`
  return 'group' in stepOf
    ? { where: 'group', check: 'projections', group: stepOf.group, problem }
    : { where: 'log', check: stepOf.check, problem }
}

/** @param stopSignal aborted when the verification must end */
const createAttempt = (findings: Findings, stopSignal: AbortSignal): Attempt => {
  const failed = new Set<string>()
  return async (stepOf, step) => {
    const key = JSON.stringify(stepOf)
    if (failed.has(key)) return null
    try {
      return await step()
    } catch (error) {
      if (stopSignal.aborted || isConnectionLost(error)) throw error
      failed.add(key)
      findings.add(couldNotRun(stepOf, error))
      return null
    }
  }
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
 * Verifies the whole log in one read, with each check of `checks`. A live server may run at the same time. The log is
 * checked up to its end when the reader reaches it, and each group of read models up to its position at that time. A
 * check that cannot run, for instance because a table was changed, is a finding; the other checks continue.
 * @throws the reason of the signal, and an error when Postgres is unreachable
 */
export const verifyLog = async (
  dependencies: VerifyDependencies,
  options: VerifyOptions,
): Promise<VerifyResult> => {
  const { pool, auditorPool = pool, log, logInPostgres } = dependencies
  const findings = createFindings()
  const logId = await log.logId()
  const scratch = await openScratch(auditorPool, options.runId, { ...options, livePool: pool })
  for (const problem of scratch.problems) findings.addForLog('verifications', problem)
  const stopSignal = AbortSignal.any([scratch.signal, ...(options.signal ? [options.signal] : [])])
  const attempt = createAttempt(findings, stopSignal)
  const report: CheckContext['report'] = (progress) => options.onProgress?.(progress)
  const results: CheckContext['results'] = {
    streams: 0,
    seals: null,
    signatures: null,
    vault: [],
    runs: { links: 0, digest: null, findings: [] },
    unloggedTraffic: { bytes: 0, plans: 0 },
    groups: [],
    acknowledged: { count: 0, first: [] },
  }
  try {
    const { schema } = scratch
    const { client } = await scratch.session()
    const context: CheckContext = {
      ...dependencies,
      ...options,
      logId,
      findings,
      attempt,
      scratch,
      schema,
      client,
      poisons: createPoisons(),
      results,
      report,
    }
    const runs: (CheckRun & { readonly check: CheckName })[] = []
    for (const { name, onlyPostgresLog = false, open } of checks) {
      if (onlyPostgresLog && !logInPostgres) continue
      const run = await attempt({ check: name }, async () => open(context))
      if (run !== null) runs.push({ check: name, ...run })
    }

    const reader = createEventReader()
    let events = 0
    let position = 0
    let total = await log.head()
    report({ phase: 'log', done: 0, total, count: 0 })
    const readPage = (after: number): Promise<readonly StoredEvent[]> => {
      const page = log.readAll(after, pageSize)
      page.catch(() => undefined) // awaited later; avoids an unhandled rejection before that
      return page
    }
    let nextPage = readPage(0)
    for (;;) {
      stopSignal.throwIfAborted()
      const stored = (await attempt({ check: 'positions' }, () => nextPage)) ?? []
      const last = stored.at(-1)
      if (last !== undefined) {
        if (stored.length === pageSize) nextPage = readPage(last.position)
        const firstOrdinal = events + 1
        const decoded = reader.read(stored, firstOrdinal)
        const page = { stored, firstOrdinal, decoded, readable: readable(decoded) }
        for (const { check, page: take } of runs) await attempt({ check }, async () => take?.(page))
        events += stored.length
        position = last.position
        total = Math.max(total, position)
        report({ phase: 'log', done: position, total, count: events })
      }
      if (stored.length < pageSize) break
    }

    report({ phase: 'order', done: 0, total, count: 0 })
    for (const { check, written } of runs) await attempt({ check }, async () => written?.())
    await attempt({ check: 'positions' }, () => planForWholeTables(client, schema))
    for (const { check, end } of runs) await attempt({ check }, async () => end?.(events))
    return {
      logId,
      position,
      events,
      streams: results.streams,
      seals: results.seals ?? emptySealSummary(events),
      signatures: results.signatures,
      vault: results.vault,
      runs: results.runs,
      unloggedTraffic: results.unloggedTraffic,
      groups: results.groups,
      acknowledged: results.acknowledged,
      findings: findings.list(),
      findingCount: findings.count,
    }
  } finally {
    await scratch.close()
  }
}
