import type { JudgeAccess } from './judge.ts'
import { type Check, CheckUnavailable } from './port.ts'

/**
 * Checks for people who ask: the judge is asked directly first where it was not yet, and again before a proxy is said not to
 * work though it took a connection. So an outage of the judge is told as one.
 */
export const oneOffCheck =
  (check: Check, judge: Pick<JudgeAccess, 'inForce' | 'answers'>): Check =>
  async (endpoint, options, signal) => {
    if (judge.inForce() === null && !(await judge.answers()))
      throw new CheckUnavailable('the judge does not answer')
    const result = await check(endpoint, options, signal)
    if (!result.alive && result.connectMs !== null && !(await judge.answers()))
      throw new CheckUnavailable('the judge does not answer')
    return result
  }
