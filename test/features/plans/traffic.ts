import { createHash } from 'node:crypto'
import type { PlanId } from '../../../src/kernel/ids.ts'

/** What a reporter counted in one batch: always the same for the same sequence, as a gateway that sends it again. */
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

/** What some batches of a reporter come to. */
export const sumOf = (
  reporter: string,
  sequences: readonly number[],
  planIds: readonly PlanId[],
  planId: PlanId,
): number =>
  sequences.reduce((sum, sequence) => sum + (batchOf(reporter, sequence, planIds).get(planId) ?? 0), 0)
