import { createHash } from 'node:crypto'
import type { PlanId } from '../../../src/kernel/ids.ts'

/**
 * The counts of a reporter in one batch: the same for the same sequence, as for a gateway that sends it
 * again.
 */
export const batchOf = (
  reporter: string,
  sequence: number,
  planIds: readonly PlanId[],
): ReadonlyMap<PlanId, number> =>
  new Map(
    planIds
      .map((planId) => {
        const hash = createHash('sha256').update(`${reporter} ${sequence} ${planId}`).digest()
        return { planId, sent: hash[0]! % 4 > 0, order: hash[1]!, bytes: hash.readUInt32BE(2) % 50_000_000 }
      })
      .filter(({ sent }) => sent)
      // Gateways list plans in any order.
      .sort((a, b) => a.order - b.order)
      .map(({ planId, bytes }) => [planId, bytes]),
  )

/** The sum of some batches of a reporter. */
export const sumOf = (
  reporter: string,
  sequences: readonly number[],
  planIds: readonly PlanId[],
  planId: PlanId,
): number =>
  sequences.reduce((sum, sequence) => sum + (batchOf(reporter, sequence, planIds).get(planId) ?? 0), 0)
