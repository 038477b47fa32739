import { isDatabaseOutage } from '../../platform/postgres/errors.ts'
import type { Check, Finding, Findings } from './finding.ts'

/** What a verification asks of the log, or of one group of read models. */
export type Part = { readonly check: Check } | { readonly group: string }

/**
 * Runs a step of a part. Null when it cannot run, which is a finding, and for every later step of that part.
 * @throws when the verification cannot go on: it was stopped, or Postgres cannot be reached
 */
export type Attempt = <Value>(part: Part, step: () => Promise<Value>) => Promise<Value | null>

const couldNotRun = (part: Part, error: unknown): Finding => {
  const problem = `the check could not run: ${error instanceof Error ? error.message : String(error)}`
  return 'group' in part
    ? { where: 'group', check: 'projections', group: part.group, problem }
    : { where: 'log', check: part.check, problem }
}

/** A lock that was not free in time, a statement that took too long: somebody may cause these on purpose. */
const waitCodes: readonly unknown[] = ['55P03', '57014', '40P01', '40001']

const isLost = (error: unknown): boolean =>
  isDatabaseOutage(error) && !waitCodes.includes((error as { code?: unknown }).code)

/** @param stopped aborted when the verification is to end */
export const createAttempt = (findings: Findings, stopped: AbortSignal): Attempt => {
  const failed = new Set<string>()
  return async (part, step) => {
    const key = JSON.stringify(part)
    if (failed.has(key)) return null
    try {
      return await step()
    } catch (error) {
      if (stopped.aborted || isLost(error)) throw error
      failed.add(key)
      findings.add(couldNotRun(part, error))
      return null
    }
  }
}
