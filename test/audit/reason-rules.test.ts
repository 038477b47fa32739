import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { findingText } from '../../src/books/audit/verify/finding.ts'
import { verifyLog } from '../../src/books/audit/verify/verify.ts'
import { newEventId } from '../../src/kernel/ids.ts'
import type { StoredEvent } from '../../src/platform/eventstore/port.ts'
import { allEvents, appendEach, auditWorld, everyKind, tamper } from './world.ts'

// biome-ignore lint/suspicious/noExplicitAny: facts of many shapes
type Facts = any

/** What somebody does to the log, past the service: an event with other data, one that is gone, or one more at the end. */
type Deed =
  | { readonly change: StoredEvent; readonly data: Facts }
  | { readonly remove: StoredEvent }
  | { readonly add: StoredEvent; readonly stream?: string; readonly data: Facts }

type Log = {
  readonly first: (type: string, where?: (data: Facts) => boolean) => StoredEvent
  readonly last: (stream: string) => StoredEvent
  readonly after: (event: StoredEvent, type: string) => StoredEvent
}

const dataOf = ({ data }: StoredEvent): Facts => JSON.parse(data)
const changed = (event: StoredEvent, data: Facts): Deed => ({
  change: event,
  data: { ...dataOf(event), ...data },
})
const credited = (log: Log): StoredEvent => log.first('WalletCredited', ({ source }) => source === 'deposit')
const manual = (log: Log): StoredEvent => log.first('WalletCredited', ({ source }) => source === 'manual')

/** One more credit at the end of a ledger, whose figures fit. */
const more = (log: Log, event: StoredEvent, data: Facts): Deed => {
  const before = dataOf(log.last(event.stream)).availableAfterMicros
  const facts = { ...dataOf(event), ...data, receivableMicros: 0 }
  return { add: event, data: { ...facts, availableAfterMicros: before + facts.amountMicros } }
}

const cases: Readonly<Record<string, readonly [deed: (log: Log) => Deed, finding: RegExp]>> = {
  'a credit of a payment that no deposit received': [
    (log) => more(log, credited(log), { reference: 'pay_none', amountMicros: 5_000_000_000 }),
    /no deposit dep_\w+ received the payment pay_none/,
  ],
  'a credit of a deposit that there is not': [
    (log) => more(log, credited(log), { reference: 'pay_none', depositId: 'dep_none' }),
    /no deposit dep_none received the payment/,
  ],
  'a payment that is credited once more': [
    (log) => more(log, credited(log), {}),
    /payment \S+ of \S+ was credited before/,
  ],
  'a credit that is not the payment, to the micro': [
    (log) => changed(credited(log), { amountMicros: dataOf(credited(log)).amountMicros + 1 }),
    /is credited, but deposit dep_\w+ received/,
  ],
  'a credit at another gateway than the payment': [
    (log) => changed(credited(log), { gateway: 'elsewhere' }),
    /deposit dep_\w+ is of acc_\w+, no customer, at (?:stripe|btcpay|nowpayments)/,
  ],
  "a deposit of another account's": [
    (log) =>
      changed(
        log.first('DepositOpened', ({ depositId }) => depositId === dataOf(credited(log)).depositId),
        { accountId: 'acc_other' },
      ),
    /deposit dep_\w+ is of acc_other/,
  ],
  'a deposit that says credited without the credit': [
    (log) => ({ remove: credited(log) }),
    /it says that payment \S+ is credited, and no ledger credits it/,
  ],
  'a payment that was never received': [
    (log) => ({
      remove: log.first(
        'DepositPaymentReceived',
        ({ paymentId }) => paymentId === dataOf(credited(log)).reference,
      ),
    }),
    /no deposit dep_\w+ received the payment/,
  ],
  'a payment that is received twice': [
    (log) => {
      const received = log.first('DepositPaymentReceived')
      return { add: received, data: dataOf(received) }
    },
    /payment \S+ was received before/,
  ],
  'a mark of another amount': [
    (log) => changed(log.first('DepositPaymentCredited'), { amountMicros: 1 }),
    /was received, not \$0\.000001/,
  ],
  'a deposit whose sum is not its payments': [
    (log) => changed(log.first('DepositSettled'), { creditedMicros: 1 }),
    /it says that \$0\.000001 was credited/,
  ],
  "a customer's credit for no payment": [
    (log) => changed(log.first('CustomerCredited'), { reference: 'pay_none' }),
    /no deposit dep_\w+ received the payment pay_none/,
  ],
  "a customer's payment that another customer gets": [
    (log) => changed(log.first('CustomerCredited'), { customerId: 'cus_other' }),
    /deposit dep_\w+ is of acc_\w+, (?!no customer)/,
  ],
  'a credit by hand that nobody recorded': [
    (log) => more(log, manual(log), { reference: 'a gift', amountMicros: 5_000_000_000 }),
    /nobody recorded that .*"a gift"/,
  ],
  'a credit by hand of another amount than its record': [
    (log) => changed(manual(log), { amountMicros: dataOf(manual(log)).amountMicros + 1 }),
    /recorded was \{/,
  ],
  'goodwill that nobody decided': [
    (log) => changed(log.first('WalletAdjusted'), { reason: 'goodwill', reference: 'kindness' }),
    /nobody recorded that .*"kindness"/,
  ],
  'an adjustment for another reason than its record': [
    (log) => changed(log.first('WalletAdjusted'), { reason: 'correction', gateway: null }),
    /recorded was \{/,
  ],
  "a customer's adjustment that nobody recorded": [
    (log) => changed(log.first('CustomerAdjusted'), { reference: 'kindness' }),
    /nobody recorded that .*"kindness"/,
  ],
  'a record that says applied without the movement': [
    (log) => ({ remove: log.first('WalletAdjusted') }),
    /it says that the ledger has the movement, which it has not/,
  ],
  'a record of another stream': [
    (log) => changed(log.first('ManualMovementRecorded'), { reference: 'another' }),
    /the stream of this movement is deposit-dep_/,
  ],
  'a refund to another account': [
    (log) => {
      const refund = log.first('WalletCredited', ({ source }) => source === 'refund')
      const other = log.first('WalletCredited', () => true)
      return {
        add: refund,
        stream: other.stream === refund.stream ? 'ledger-acc_other' : other.stream,
        data: dataOf(refund),
      }
    },
    /order ord_\w+ is of acc_/,
  ],
  'a movement of an account that there is not': [
    (log) => ({ add: manual(log), stream: 'ledger-acc_none', data: dataOf(manual(log)) }),
    /there is no account acc_none at this place of the log/,
  ],
  'a movement of an account before it was made': [
    (log) => {
      const account = credited(log).stream.replace('ledger-', '')
      return { remove: log.first('AccountCreated', ({ accountId }) => accountId === account) }
    },
    /there is no account acc_\w+ at this place of the log/,
  ],
  'an account that is made twice': [
    (log) => {
      const created = log.first('AccountCreated')
      return { add: created, data: dataOf(created) }
    },
    /account acc_\w+ was made before/,
  ],
}

const verified = async ({
  pool,
  log,
}: Awaited<ReturnType<typeof auditWorld>>): Promise<readonly string[]> => {
  const { findings } = await verifyLog(
    { pool, log, groups: [], logInPostgres: true },
    { runId: newEventId(), publicKey: '', exported: null },
  )
  return findings.map(findingText)
}

const restore = [
  ['delete from log.events'],
  ['insert into log.events select * from log.kept'],
  ['update log.head set last_position = (select max(position) from log.events)'],
] as const

const statementOf = (deed: Deed, head: number): readonly [string, unknown[]] => {
  if ('change' in deed)
    return [
      'update log.events set data = $2 where position = $1',
      [deed.change.position, JSON.stringify(deed.data)],
    ]
  if ('remove' in deed) return ['delete from log.events where position = $1', [deed.remove.position]]
  const { stream, type } = deed.add
  return [
    `insert into log.events
       select $1::bigint, $2::text, 1 + coalesce((select max(revision) from log.events where stream = $2::text), -1), $3::uuid,
              $4::text, $5::text, (select metadata from log.events order by position desc limit 1)`,
    [head + 1, deed.stream ?? stream, newEventId(), type, JSON.stringify(deed.data)],
  ]
}

describe('every movement of money has its reason', () => {
  const openWorld = async (t: TestContext) => {
    const world = await auditWorld(t)
    await appendEach(world.log, await everyKind())
    await world.pool.query('create table log.kept as select * from log.events')
    return world
  }

  test('a verification finds what is moved without one', async (t) => {
    const world = await openWorld(t)
    assert.deepEqual(await verified(world), [])
    const events = await allEvents(world.log)
    const found = (event: StoredEvent | undefined): StoredEvent => event ?? assert.fail('no such event')
    const log: Log = {
      first: (type, where = () => true) =>
        found(events.find((event) => event.type === type && where(dataOf(event)))),
      last: (stream) => found(events.findLast((event) => event.stream === stream)),
      after: (event, type) => found(events.find((one) => one.position > event.position && one.type === type)),
    }
    for (const [what, [deed, finding]] of Object.entries(cases))
      await t.test(what, async () => {
        const [sql, values] = statementOf(deed(log), events.length)
        await tamper(
          world.pool,
          ...restore,
          [sql, values],
          ['update log.head set last_position = (select max(position) from log.events)'],
        )
        assert.match((await verified(world)).join('\n'), finding)
      })
  })
})
