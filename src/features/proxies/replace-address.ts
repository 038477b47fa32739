import type pg from 'pg'
import type { FoundProxy } from '../../../projections/proxies.ts'
import { decideReplacement, type ReplacementRefusal } from '../../domain/stock/decide.ts'
import type { ReplaceReason } from '../../domain/stock/events.ts'
import { stockFold } from '../../domain/stock/fold.ts'
import { type Clock, isoTime } from '../../kernel/clock.ts'
import type { Cause } from '../../kernel/event.ts'
import { replacementIdOf } from '../../kernel/ids.ts'
import type { AccountScope as Scope } from '../../kernel/scopes.ts'
import { stockStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle } from '../../platform/commands/command.ts'
import { type ApiError, refuse } from '../../platform/http/errors.ts'
import { type Db, sql } from '../../platform/postgres/kysely.ts'
import type { Reads } from '../../platform/projections/read-your-writes.ts'
import type { VerifyRentals } from './own-rentals.ts'
import { createFindProxy } from './own-rentals.ts'

/** The largest number of characters in a renter's comment. */
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
 * Replaces the address of a rental within the scope. A repeated key changes nothing.
 * @returns the current rental; `replayed`: an earlier request with this key replaced the address
 * @throws ApiError not_found, invalid_body (a reason `custom` without a comment), rental_ended, out_of_stock,
 * replacement_limit_reached, idempotency_conflict
 */
export type ReplaceAddress = (
  input: {
    readonly scope: Scope
    readonly proxyId: string
    readonly reason: ReplaceReason
    readonly comment: string | undefined
    readonly idempotencyKey: string | null
  },
  cause: Cause,
  after: number | null,
) => Promise<{ readonly rental: FoundProxy; readonly position: number | null; readonly replayed: boolean }>

export const createReplaceAddress = (dependencies: {
  readonly runner: CommandRunner
  readonly reads: Pick<Reads, 'settled'>
  readonly db: Db
  readonly verifyRentals: VerifyRentals
  readonly pool: pg.Pool
  readonly clock: Clock
}): ReplaceAddress => {
  const { runner, pool } = dependencies
  const proxyOf = createFindProxy(dependencies)
  return async ({ scope, proxyId, reason, comment, idempotencyKey }, cause, after) => {
    const { accountId } = scope
    if (reason === 'custom' && comment === undefined)
      throw refuse('invalid_body', 'send a comment with the reason custom: what is wrong with the address')
    const row = await proxyOf(scope, proxyId, after)
    const result = await handle(
      runner,
      { ...cause, name: 'replace-address', account: accountId },
      { stream: stockStream(row.productId, row.country), fold: stockFold },
      (stock, { nowMs }) =>
        decideReplacement(
          stock,
          {
            proxyId: row.proxyId,
            accountId,
            reason,
            requestId: idempotencyKey === null ? null : replacementIdOf(accountId, idempotencyKey),
          },
          nowMs,
        ),
    )
    if (result.outcome === 'refused') throw apiError(proxyId, result.refusal)
    if (comment !== undefined && result.replacedAt !== null)
      await pool.query(
        `insert into vault.replacement_comments (proxy_id, account_id, comment, replaced_at)
             values ($1::text, $2::text, $3::text, $4::timestamptz)`,
        [row.proxyId, accountId, comment, result.replacedAt],
      )
    const { ip, city, asn, asnOrg, endpoint = null } = result.address
    return {
      rental: { ...row, ip, city, asn, asnOrg, endpoint },
      position: result.position,
      replayed: result.replacedAt === null,
    }
  }
}

/** A replacement of a rental's address, for its operator. */
export type Replacement = {
  readonly replacedAt: string
  readonly reason: string
  readonly formerIp: string
  readonly ip: string
  /** In the renter's own words. */
  readonly comment: string | null
}

/** The replacements of these rentals by rental id, oldest first. Rentals without a replacement are left out. */
export const readReplacements = async (
  db: Db,
  proxyIds: readonly string[],
): Promise<ReadonlyMap<string, readonly Replacement[]>> => {
  const rows = await db
    .selectFrom('read.replacements as replacement')
    .leftJoin('vault.replacement_comments as renter', (join) =>
      join
        .onRef('renter.proxyId', '=', 'replacement.proxyId')
        .onRef('renter.replacedAt', '=', 'replacement.replacedAt'),
    )
    .where('replacement.proxyId', '=', sql<string>`any (${proxyIds}::text[])`)
    .orderBy('replacement.replacedAt')
    .select([
      'replacement.proxyId',
      'replacement.replacedAt',
      'replacement.reason',
      'replacement.formerIp',
      'replacement.ip',
      'renter.comment',
    ])
    .execute()
  const groups = Map.groupBy(rows, ({ proxyId }) => proxyId)
  return new Map(
    [...groups].map(([proxyId, found]) => [
      proxyId,
      found.map(({ proxyId: _, ...replacement }) => replacement),
    ]),
  )
}
