import { createEventDigest, startDigest } from '../../src/audit/seals/digests.ts'
import {
  rotationStatement,
  type SealKey,
  sealKeyOf,
  sealStatement,
} from '../../src/audit/seals/seals-file.ts'
import { introductionStatement, stopStatement } from '../../src/audit/signatures/signing-keys.ts'
import { decideImport, decideState } from '../../src/domain/exits/decide.ts'
import { exitsFold } from '../../src/domain/exits/fold.ts'
import { decideTokenIssue, decideTokenRevocation, financeTokenFold } from '../../src/domain/finance/tokens.ts'
import {
  decideStatement,
  decideStatementCorrection,
  statementFold,
  streamOfLine,
} from '../../src/domain/ledger/statement-lines.ts'
import { decideExpiration, decidePublication, noticeFold } from '../../src/domain/notices/decide.ts'
import { decideClose, decideCutOff } from '../../src/domain/periods/decide.ts'
import { periodFold } from '../../src/domain/periods/events.ts'
import { decideRotation, decideSeal } from '../../src/domain/seals/decide.ts'
import type { LogSealed } from '../../src/domain/seals/events.ts'
import { sealFold } from '../../src/domain/seals/events.ts'
import { parseExits } from '../../src/features/exits/import-exits.ts'
import { utcCalendar } from '../../src/kernel/calendar.ts'
import { isoTime } from '../../src/kernel/clock.ts'
import type { NoticeId } from '../../src/kernel/ids.ts'
import type { Period } from '../../src/kernel/months.ts'
import {
  exitsStream,
  financeStream,
  noticeStream,
  periodStream,
  processKeyStream,
  sealStream,
  signingStream,
  violationStream,
} from '../../src/kernel/streams.ts'
import type { History } from './history.ts'

/** What operators and auditors do: notices, finance tokens, a closed month, seals by one key and by the next. */
export const makeOperations = ({ written, write, fact, state, now, wait }: History): void => {
  const publish = (id: string, kind: 'INFO' | 'ACTION_REQUIRED'): void => {
    const noticeId = id as NoticeId
    const draft = {
      noticeId,
      title: 'Strict bodies',
      body: 'Unknown fields are refused from 2027-03-01 on.',
      kind,
      audience: 'DEVELOPERS',
      expiresAt: null,
      linkHref: '/docs',
      linkLabel: 'The interface',
    } as const
    const decision = decidePublication(state(noticeStream(noticeId), noticeFold), draft, now())
    if (decision.outcome === 'refused') throw new Error(decision.refusal.code)
    fact(noticeStream(noticeId), ...decision.events)
  }
  publish('ntc_golden_standing', 'ACTION_REQUIRED')
  publish('ntc_golden_over', 'INFO')
  const over = noticeStream('ntc_golden_over' as NoticeId)
  const expiration = decideExpiration(state(over, noticeFold), now())
  if (expiration.outcome === 'decided') fact(over, ...expiration.events)

  const [first] = written
  if (first) {
    const data = { eventId: first.id, rule: 'movement-unrecorded', reason: 'moved by hand, see ticket 12' }
    fact(violationStream(first.id), { type: 'LawBreachDecided', data })
  }

  const tokens = () => state(financeStream, financeTokenFold)
  const issue = (tokenId: string, expiresAtMs: number | null): void => {
    const wish = {
      tokenId,
      name: `for ${tokenId}`,
      displayPrefix: 'fbf_abcd',
      expiresAtMs,
      commitment: 'f1'.repeat(32),
    }
    const decision = decideTokenIssue(tokens(), wish, now())
    if (decision.outcome === 'decided') fact(financeStream, ...decision.events)
  }
  issue('ftk_golden_kept', now() + 86_400_000)
  issue('ftk_golden_revoked', null)
  const revocation = decideTokenRevocation(tokens(), 'ftk_golden_revoked')
  if (revocation.outcome === 'decided') fact(financeStream, ...revocation.events)

  const line = {
    gateway: 'stripe',
    reference: 'txn_golden',
    category: 'payout',
    feeMicros: 250_000,
    payoutMicros: 20_000_000,
    happenedAt: isoTime(now()),
    file: { name: 'balance.csv', sha256: 'a1'.repeat(32) },
    proposalId: null,
  }
  const lines = streamOfLine(line)
  fact(lines, ...decideStatement(state(lines, statementFold), line).events)
  const right = { feeMicros: 200_000, reason: 'the file was wrong', proposalId: null }
  fact(lines, ...decideStatementCorrection(state(lines, statementFold)!, right).events)

  const file = parseExits(`
    {"id":"us-dal-1","kind":"socks5","host":"198.18.0.77","port":1080,"username":"u","password":"p","country":"us","state":"Texas","city":"Dallas","isp":"Comcast Cable","asn":7922,"os":"windows","udp":true}
    {"id":"v6","kind":"prefix","prefix":"2001:db8:1::/48","country":"nl","family":"ipv6","capacity":500}
    {"id":"pool","kind":"template","protocol":"http","host":"gw.example","port":7000,"username":"u-{country}[-{city}]","covers":[{"country":"de","cities":[{"name":"Berlin"}]},{"country":"jp"}]}`)
  if (!file.ok) throw new Error('the exits are refused')
  const exits = () => state(exitsStream, exitsFold)
  const terms = file.exits.map((exit) => ({ ...exit.terms, credentialId: exit.login && 'exc_golden' }))
  fact(exitsStream, ...decideImport(exits(), terms).events)
  fact(exitsStream, ...decideState(exits(), ['us-dal-1'], 'drained').events)
  fact(exitsStream, ...decideState(exits(), ['v6'], 'removed').events)

  const period = '2026-07' as Period
  const month = () => state(periodStream(period), periodFold)
  write(decideCutOff(month(), period, utcCalendar.endOfPeriodMs(period), now()).appends)
  const closed = {
    period,
    throughOrdinal: 3,
    throughEventId: written[2]!.id,
    entries: 21,
    accounts: 14,
    digest: '5f'.repeat(32),
  }
  write(decideClose(month(), closed, now()).appends)

  const seals = () => state(sealStream, sealFold)
  const keys = [sealKeyOf(Buffer.alloc(32, 1)), sealKeyOf(Buffer.alloc(32, 2))] as const
  const signed = (key: SealKey, seal: Omit<LogSealed['data'], 'publicKey' | 'signature'>) => {
    const statement = { ...seal, publicKey: key.publicKey }
    return { ...statement, signature: key.sign(sealStatement(statement)) }
  }
  const digestOf = createEventDigest()
  const digest = written.reduce<Uint8Array>((before, event, index) => {
    const [data, metadata] = [JSON.stringify(event.data), JSON.stringify(event.metadata)]
    return digestOf(before, index + 1, { ...event, data, metadata })
  }, startDigest())
  const sealed = {
    throughOrdinal: written.length,
    throughEventId: written.at(-1)!.id,
    digest: Buffer.from(digest).toString('hex'),
    sealedAt: isoTime(now()),
  }
  write(decideSeal(seals(), signed(keys[0], sealed), { throughOrdinal: 0, digest: '' }).appends)
  const handover = {
    sealedOrdinal: sealed.throughOrdinal,
    sealedDigest: sealed.digest,
    previousPublicKey: keys[0].publicKey,
    publicKey: keys[1].publicKey,
    rotatedAt: isoTime(now()),
  }
  const rotation = { ...handover, signature: keys[0].sign(rotationStatement(handover)) }
  const again = signed(keys[1], { ...sealed, sealedAt: isoTime(now()) })
  write(decideRotation(seals(), rotation, again).appends)

  // What became due before has had its time by then.
  wait(20 * 60_000)
  const logId = '00000000-0000-7000-8000-00000000f00d'
  const introduction = {
    publicKey: sealKeyOf(Buffer.alloc(32, 3)).publicKey,
    logId,
    process: 'server 4711 on host-1',
    introducedAt: isoTime(now()),
    endsAt: isoTime(now() + 86_400_000),
    previousPublicKey: sealKeyOf(Buffer.alloc(32, 4)).publicKey,
    previousBatches: 12,
    sealPublicKey: keys[1].publicKey,
  }
  const introduced = { ...introduction, signature: keys[1].sign(introductionStatement(introduction)) }
  fact(processKeyStream(introduction.publicKey), { type: 'ProcessKeyIntroduced', data: introduced })
  const stop = {
    number: 1,
    process: 'server 4712 on host-1',
    stoppedAt: isoTime(now()),
    sealPublicKey: keys[1].publicKey,
  }
  const stopped = { ...stop, signature: keys[1].sign(stopStatement(logId, stop)) }
  fact(signingStream, { type: 'BatchSigningStopped', data: stopped })
}
