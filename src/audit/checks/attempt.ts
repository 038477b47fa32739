import { isDatabaseOutage } from '../../platform/postgres/errors.ts'
import type { Check, Finding, Findings } from './finding.ts'

/** The subject of a step: one check of the log, or one group of read models. */
export type Part = { readonly check: Check } | { readonly group: string }

/**
 * Runs a step of a part. Returns null when the step cannot run; this adds a finding, and later steps of that part are
 * skipped.
 * @throws when the verification was stopped, or when Postgres is unreachable
 */
export type Attempt = <Value>(part: Part, step: () => Promise<Value>) => Promise<Value | null>

const couldNotRun = (part: Part, error: unknown): Finding => {
  const problem = `the check could not run: ${error instanceof Error ? error.message : String(error)}`
  return 'group' in part
    ? { where: 'group', check: 'projections', group: part.group, problem }
    : { where: 'log', check: part.check, problem }
}

/**
 * Codes of lock and statement timeouts, deadlocks and serialization failures. Another session can cause these on
 * purpose.
 */
const waitCodes: readonly unknown[] = ['55P03', '57014', '40P01', '40001']

const isConnectionLost = (error: unknown): boolean =>
  isDatabaseOutage(error) && !waitCodes.includes((error as { code?: unknown }).code)

/** @param stopSignal aborted when the verification must end */
export const createAttempt = (findings: Findings, stopSignal: AbortSignal): Attempt => {
  const failedParts = new Set<string>()
  return async (part, step) => {
    const key = JSON.stringify(part)
    if (failedParts.has(key)) return null
    try {
      return await step()
    } catch (error) {
      if (stopSignal.aborted || isConnectionLost(error)) throw error
      failedParts.add(key)
      findings.add(couldNotRun(part, error))
      return null
    }
  }
}
