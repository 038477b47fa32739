import type pg from 'pg'
import { gatewayAccount } from '../../domain/ledger/postings.ts'
import { type CallbacksSeen, callbacksOf, type Gateways, type OwnGateway } from '../payments/index.ts'

/** A gateway of the service with its state. */
export type OwnGatewayState = OwnGateway & {
  /** Whether payments go there. */
  readonly takes: boolean
  readonly callbacks: CallbacksSeen | undefined
  /** Incoming less outgoing money, micro-dollars. */
  readonly floatMicros: bigint
}

/** The gateways of the service, in order of preference. */
export type OwnGateways = {
  list(): readonly OwnGateway[]
  states(): Promise<readonly OwnGatewayState[]>
}

export const createOwnGateways = ({
  gateways,
  pool,
  floats,
}: {
  readonly gateways: Pick<Gateways, 'forRail'> & { own(): readonly OwnGateway[] }
  readonly pool: pg.Pool
  /** Incoming less outgoing money of each gateway, micro-dollars, by the name of its account in the books. */
  readonly floats: () => Promise<ReadonlyMap<string, bigint>>
}): OwnGateways => ({
  list: gateways.own,
  states: async () => {
    const ownGateways = gateways.own()
    const [seen, balances, takes] = await Promise.all([
      callbacksOf(
        pool,
        ownGateways.map(({ gatewayId }) => gatewayId),
      ),
      floats(),
      Promise.all(
        ownGateways.map(async ({ rails: [first], gatewayId }) => {
          const liveGateway =
            first === undefined ? null : await gateways.forRail(null, first.rail).catch(() => null)
          return liveGateway?.gatewayId === gatewayId
        }),
      ),
    ])
    return ownGateways.map((each, at) => ({
      ...each,
      takes: takes[at] === true,
      callbacks: seen[at],
      floatMicros: balances.get(gatewayAccount(each.provider)) ?? 0n,
    }))
  },
})
