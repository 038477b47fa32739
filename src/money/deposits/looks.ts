import type pg from 'pg'
import { isoTime } from '../../kernel/clock.ts'
import type { DepositId } from '../../kernel/ids.ts'
import type { DepositDetails } from './events.ts'

const maxPauseS = 3_600

/**
 * Puts a deposit into the rounds of looks, once; one that is in them, or was, stays as it is. It is written before the
 * invoice is made: no deposit that can be paid is missing.
 */
export const watchDeposit = async (
  pool: pg.Pool,
  {
    depositId,
    gatewayId,
    openedAt,
  }: Pick<DepositDetails, 'depositId' | 'gatewayId'> & { readonly openedAt: string },
): Promise<void> => {
  await pool.query({
    name: 'watch-deposit',
    text: `insert into work.deposit_looks (deposit_id, gateway_id, looks, next_at)
           values ($1::text, $2::text, 0, $3::timestamptz)
           on conflict (deposit_id) do nothing`,
    values: [depositId, gatewayId, openedAt],
  })
}

/**
 * Deposits whose turn it is, each for this process alone until its next turn: at most `limit`, and of one gateway at most
 * `limitAGateway`, for whoever answers slowly must not hold up the deposits of others. Gateways take turns. Of one gateway
 * those come first that are late by the largest share of their pause: a young deposit a minute late is more likely to have
 * been paid than a two weeks old one that is late by ten. Nothing but rows that are due is read, however many deposits
 * there are whose rounds ended.
 */
export const claimDue = async (
  pool: pg.Pool,
  {
    nowMs,
    firstLookMs,
    limit,
    limitAGateway,
  }: {
    readonly nowMs: number
    readonly firstLookMs: number
    readonly limit: number
    readonly limitAGateway: number
  },
): Promise<readonly DepositId[]> => {
  const { rows } = await pool.query<{ deposit_id: DepositId }>({
    name: 'claim-deposits-to-look-at',
    text: `with due as (
             select deposit_id, gateway_id,
                    extract(epoch from $1::timestamptz - due_at)
                      / least(${maxPauseS}, $2::float8 * greatest(1, looks)) as lateness
               from (select deposit_id, gateway_id, looks,
                            case looks when 0 then next_at + make_interval(secs => $2::float8) else next_at end due_at
                       from work.deposit_looks
                      where ended_at is null and next_at <= $1::timestamptz) watched
              where due_at <= $1::timestamptz
           ), ranked as (
             select deposit_id, lateness, row_number() over (partition by gateway_id order by lateness desc) as turn
               from due
           ), chosen as (
             select look.deposit_id
               from work.deposit_looks look join ranked using (deposit_id)
              -- Told again of the row, which another process may have claimed since it was ranked.
              where look.ended_at is null and look.next_at <= $1::timestamptz and ranked.turn <= $4::integer
              order by ranked.turn, ranked.lateness desc
              limit $3::integer
                for update of look skip locked)
           update work.deposit_looks look
              set looks = looks + 1,
                  next_at = $1::timestamptz + make_interval(secs => least(${maxPauseS}, $2::float8 * (looks + 1)))
             from chosen where look.deposit_id = chosen.deposit_id
           returning look.deposit_id`,
    values: [isoTime(nowMs), firstLookMs / 1000, limit, limitAGateway],
  })
  return rows.map(({ deposit_id }) => deposit_id)
}

/** Takes a deposit out of the rounds: at that time its provider answered for the last time that counts. */
export const endLooks = async (pool: pg.Pool, deposit: DepositId, atMs: number): Promise<void> => {
  await pool.query({
    name: 'end-looks-at-deposit',
    text: 'update work.deposit_looks set ended_at = $2::timestamptz where deposit_id = $1::text',
    values: [deposit, isoTime(atMs)],
  })
}

/**
 * Puts those deposits into the rounds that should be and are not: watched still or not closed, and not looked at since
 * the end of their watch. They are few: a process died before it wrote its row, an earlier version kept other rows, or
 * the log came without them. It reads all deposits, and so it runs seldom.
 */
export const findUnwatched = async (pool: pg.Pool, nowMs: number): Promise<number> => {
  const { rowCount } = await pool.query({
    name: 'find-unwatched-deposits',
    text: `insert into work.deposit_looks as look (deposit_id, gateway_id, looks, next_at)
           select deposit_id, d.gateway_id, 0, d.opened_at
             from read.deposits d left join work.deposit_looks l using (deposit_id)
            where (d.watch_until >= $1::timestamptz or d.status in ('awaiting_payment', 'processing'))
              and (l.deposit_id is null or l.ended_at < d.watch_until)
           on conflict (deposit_id) do update set ended_at = null where look.ended_at is not null`,
    values: [isoTime(nowMs)],
  })
  return rowCount ?? 0
}
