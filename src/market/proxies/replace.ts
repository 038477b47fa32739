import type pg from 'pg'
import type { Reads } from '../../../projections/engine/reads.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import { replacementIdOf } from '../../kernel/ids.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import { handle } from '../../platform/eventstore/commands/handle.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import type { Scope } from '../../terms/holder.ts'
import { stockStream } from '../../terms/streams.ts'
import type { ReplaceReason } from '../stock/events.ts'
import { stockFold } from '../stock/fold.ts'
import { decideReplacement, type ReplacementRefusal } from '../stock/replace.ts'
import { createOwnProxy } from './own-proxy.ts'
import type { ProxyQueries } from './queries.ts'
import type { FoundProxy } from './record.ts'

/** Characters of what a renter says of an address at most. */
export const maxComment = 500

const apiError = (id: string, refusal: ReplacementRefusal): ApiError => {
  switch (refusal.code) {
    case 'rental_ended':
      return refuse('rental_ended', `the rental of ${id} has ended: there is nothing to replace`)
    case 'out_of_stock':
      return refuse('out_of_stock', `no other address is free that could replace the one of ${id}`)
    case 'another_request':
      return refuse('idempotency_conflict', 'this Idempotency-Key replaced the address for another reason')
    case 'too_often':
      return refuse(
        'replacement_limit_reached',
        `the address of ${id} was replaced before; it can be again from ${isoTime(refusal.retryAtMs)} on`,
      )
    default:
      return refusal satisfies never
  }
}

/**
 * Gives a rental within the scope another address. A key that was used before replaces nothing more.
 * @returns the rental as it is now; `replayed`: an earlier request with this key did it
 * @throws ApiError not_found, invalid_body (a reason `custom` without a comment), rental_ended, out_of_stock,
 * replacement_limit_reached, idempotency_conflict
 */
export type ReplaceAddress = (
  asked: {
    readonly scope: Scope
    readonly proxyId: string
    readonly reason: ReplaceReason
    readonly comment: string | undefined
    readonly idempotencyKey: string | null
  },
  cause: Cause,
  after: number | null,
) => Promise<{ readonly rental: FoundProxy; readonly position: number | null; readonly replayed: boolean }>

export const createReplaceAddress = (deps: {
  readonly runner: CommandRunner
  readonly reads: Pick<Reads, 'settled'>
  readonly db: ProxyQueries
  readonly pool: pg.Pool
  readonly clock: Clock
}): ReplaceAddress => {
  const { runner, pool } = deps
  const proxyOf = createOwnProxy(deps)
  return async ({ scope, proxyId, reason, comment, idempotencyKey }, cause, after) => {
    const { accountId } = scope
    if (reason === 'custom' && comment === undefined)
      throw refuse('invalid_body', 'send a comment with the reason custom: what is wrong with the address')
    const row = await proxyOf(scope, proxyId, after)
    const made = await handle(
      runner,
      { ...cause, name: 'replace-address', account: accountId },
      { stream: stockStream(row.product_id, row.country), fold: stockFold },
      (stock, { nowMs }) =>
        decideReplacement(
          stock,
          {
            proxyId: row.proxy_id,
            accountId,
            reason,
            requestId: idempotencyKey === null ? null : replacementIdOf(accountId, idempotencyKey),
          },
          nowMs,
        ),
    )
    if (made.outcome === 'refused') throw apiError(proxyId, made.refusal)
    if (comment !== undefined && made.replacedAt !== null)
      await pool.query(
        `insert into vault.replacement_comments (proxy_id, account_id, comment, replaced_at)
             values ($1::text, $2::text, $3::text, $4::timestamptz)`,
        [row.proxy_id, accountId, comment, made.replacedAt],
      )
    const { ip, city, asn, asnOrg, endpoint = null } = made.address
    return {
      rental: { ...row, ip, city, asn, asn_org: asnOrg, endpoint },
      position: made.position,
      replayed: made.replacedAt === null,
    }
  }
}
