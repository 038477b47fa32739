import type { GroupHealth, GroupLag } from '../../../projections/engine/runner.ts'
import type { ExitService } from '../../gateway/exits/service.ts'
import type { Clock } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import type { Catalog } from '../../market/catalog/catalog.ts'
import type { Proposals } from '../../market/orders/proposals.ts'
import type { AskedRefund, refundOrder } from '../../market/orders/refund-service.ts'
import type { StockLogins } from '../../market/stock/logins.ts'
import type { Wallets } from '../../money/ledger/service.ts'
import type { OwnGateway } from '../../money/payments/gateways.ts'
import type { Gateways } from '../../money/payments/port.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import type { QueueTable } from '../../platform/work/queue/table.ts'
import type { CustomerDeps } from '../customer/deps.ts'
import type { People } from '../people/service.ts'
import type { TrailDeps } from '../staff/trail-pages.ts'
import type { RebuildRuns } from './rebuild-runs.ts'

/** A setting as it is listed: secrets are masked. */
export type ListedSetting = {
  readonly name: string
  readonly help: string
  readonly value: string | null
  readonly source: string
  readonly problem: string | null
}

/** Where one proposal is shown. */
export const proposalPath = (proposalId: string): string => `/console/operator/proposals/${proposalId}`

/** What the pages of operators read from and act through: the queries and services of the command line. */
export type OperatorDeps = TrailDeps &
  Pick<CustomerDeps, 'db' | 'reads' | 'accounts' | 'island' | 'deposits' | 'origin'> & {
    readonly people: Pick<People, 'workRetryAsked'>
    readonly runner: CommandRunner
    readonly wallets: Wallets
    readonly catalog: { current(): Catalog }
    /** By id or e-mail; null when nobody has it. */
    readonly findAccount: (idOrEmail: string) => Promise<AccountId | null>
    readonly refund: (refund: Parameters<typeof refundOrder>[1]) => Promise<AskedRefund | null>
    readonly proposals: Proposals
    readonly queues: readonly QueueTable[]
    /** Has what a queue gave up tried again; null: all of it. Gives how many. */
    readonly retry: (queue: QueueTable, items: readonly string[] | null, cause: Cause) => Promise<number>
    readonly clock: Clock
    readonly setExitState: ExitService['setState']
    readonly projections: {
      lag(): Promise<readonly GroupLag[]>
      health(): readonly GroupHealth[]
    }
    /** The service's own gateways. */
    readonly gateways: Pick<Gateways, 'forRail'> & { own(): readonly OwnGateway[] }
    readonly callbackUrl: (gatewayId: string) => string
    /** What came in at each gateway less what went back, in micro-dollars, by the name of its account. */
    readonly floats: () => Promise<ReadonlyMap<string, bigint>>
    readonly stockLogins: Pick<StockLogins, 'keep' | 'drop'>
    readonly rebuilds: RebuildRuns
    /** The read models of a group, by name. */
    readonly modelsOf: (group: string) => readonly string[]
    /** Resolves once the read tables hold all that is in the log now, or the bound has passed. */
    readonly caughtUp: () => Promise<void>
    readonly settings: () => readonly ListedSetting[]
  }
