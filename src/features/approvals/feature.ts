import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import type { Meter } from '../plans/index.ts'
import { proposalPages } from './approval-pages.ts'
import { createProposals } from './approval-service.ts'

export const open = (
  core: ServerCore,
  { meter, ownGatewayIds }: { readonly meter: Meter; readonly ownGatewayIds: readonly string[] },
): Feature => {
  const { db, pool, log, codec, runner, caughtUp } = core
  const proposals = createProposals({ log, runner, db, ownGatewayIds, settleTraffic: meter.settle })
  return { pages: proposalPages({ db, pool, log, codec, caughtUp, proposals }) }
}
