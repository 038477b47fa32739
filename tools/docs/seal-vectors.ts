import { createHash } from 'node:crypto'
import {
  cosigned,
  firstRecordsDigest,
  nextRecordsDigest,
  witnessStatement,
} from '../../src/audit/external-seals/external-seals.ts'
import { recordName, recordText, type SealRecord } from '../../src/audit/external-seals/seal-record.ts'
import { createEventDigest, startDigest } from '../../src/audit/seals/digests.ts'
import { rotationStatement, sealKeyOf, sealStatement } from '../../src/audit/seals/seals-file.ts'

/** The contents of seals-vectors.json. Everything in it follows from the seeds and the texts here. */

const seeds = { first: '01'.repeat(32), second: '02'.repeat(32), witness: '03'.repeat(32) }
const key = {
  first: sealKeyOf(Buffer.from(seeds.first, 'hex')),
  second: sealKeyOf(Buffer.from(seeds.second, 'hex')),
  witness: sealKeyOf(Buffer.from(seeds.witness, 'hex')),
}

type Event = {
  readonly stream: string
  readonly revision: number
  readonly id: string
  readonly type: string
  readonly data: string
  readonly metadata: string
}

const idOf = (n: number): string => `019aa000-0000-7000-8000-0000000000${String(n).padStart(2, '0')}`
const metadataOf = (n: number): string => `{"recordedAt":"2026-11-25T10:00:0${n}.000Z"}`

const plain = [
  ['account-acc_1', 0, 'AccountOpened', '{"email":"ü@example.com"}'],
  ['ledger-acc_1', 0, 'WalletCredited', '{"amountMicros":25000000, "note":"two  spaces and \\u00fc"}'],
  ['ledger-acc_1', 1, 'WalletDebited', '{"amountMicros":1}'],
] as const

const jsonOf = (event: Event, ordinal: number): string => {
  const { stream, revision, id, type, data, metadata } = event
  return JSON.stringify({ ordinal, stream, revision, id, type, data, metadata })
}

/** An export of some events, as docs/finance/exports.md has it. */
const exportOf = (events: readonly Event[]): string => {
  const body = ['{"format":"farebox-log","version":1}', ...events.map((event, at) => jsonOf(event, at + 1))]
    .map((line) => `${line}\n`)
    .join('')
  const sha256 = createHash('sha256').update(body).digest('hex')
  return `${body}${JSON.stringify({ events: events.length, sha256 })}\n`
}

const swapped = (text: string, at: string, from: string, to: string): string => {
  const start = text.indexOf(at)
  return text.slice(0, start) + text.slice(start).replace(from, to)
}

export const makeVectors = () => {
  const digestOf = createEventDigest()
  const events: Event[] = []
  const digests: string[] = []
  let digest = startDigest()
  const append = (event: Event): void => {
    events.push(event)
    digest = digestOf(digest, events.length, event as never)
    digests.push(digest.toString('hex'))
  }
  for (const [at, [stream, revision, type, data]] of plain.entries())
    append({ stream, revision, id: idOf(at + 1), type, data, metadata: metadataOf(at) })

  const records: SealRecord[] = []
  const seal = (by: 'first' | 'second', throughOrdinal: number, sealedAt: string) => {
    const unsigned = {
      throughOrdinal,
      throughEventId: events[throughOrdinal - 1]?.id ?? '',
      digest: digests[throughOrdinal - 1] ?? '',
      sealedAt,
      publicKey: key[by].publicKey,
    }
    const statement = sealStatement(unsigned)
    return { statement, data: { ...unsigned, signature: key[by].sign(statement) } }
  }
  const sealEvent = (type: 'LogSealed' | 'SealKeyRotated', data: object): void => {
    const revision = records.length
    records.push({ firstEventId: idOf(1), revision, event: { type, data } as SealRecord['event'] })
    const id = idOf(events.length + 1)
    append({
      stream: 'seal',
      revision,
      id,
      type,
      data: JSON.stringify(data),
      metadata: metadataOf(events.length),
    })
  }
  const first = seal('first', 3, '2026-11-25T10:05:00.000Z')
  sealEvent('LogSealed', first.data)
  const unsigned = {
    sealedOrdinal: 3,
    sealedDigest: digests[2] ?? '',
    previousPublicKey: key.first.publicKey,
    publicKey: key.second.publicKey,
    rotatedAt: '2026-11-25T10:06:00.000Z',
  }
  const handover = rotationStatement(unsigned)
  sealEvent('SealKeyRotated', { ...unsigned, signature: key.first.sign(handover) })
  const countersigned = seal('second', 3, '2026-11-25T10:06:00.000Z')
  sealEvent('LogSealed', countersigned.data)
  append({
    stream: 'ledger-acc_1',
    revision: 2,
    id: idOf(events.length + 1),
    type: 'WalletDebited',
    data: '{"amountMicros":2}',
    metadata: metadataOf(7),
  })
  const last = seal('second', 7, '2026-11-25T10:10:00.000Z')
  sealEvent('LogSealed', last.data)

  const files = records.map((record) => ({ name: recordName(record.revision), text: recordText(record) }))
  let recordsDigest = firstRecordsDigest()
  const recordsDigests = files.map(({ text }) => {
    recordsDigest = nextRecordsDigest(recordsDigest, text)
    return recordsDigest.toString('hex')
  })
  const unwitnessed = {
    format: 'farebox-witness',
    version: 1,
    firstEventId: idOf(1),
    publicKey: key.first.publicKey,
    since: 0,
    revision: records.length - 1,
    recordsDigest: recordsDigest.toString('hex'),
    records: records.map(({ revision, event }) => ({ revision, event })),
  } as const
  const witnessedAt = '2026-11-25T11:00:00.000Z'
  const file = cosigned(unwitnessed, key.witness, witnessedAt)

  const whole = exportOf(events)
  const wrong = [
    { what: 'a byte of an event was changed', ordinal: 4, text: whole.replace('25000000', '35000000') },
    {
      what: 'two spaces of a data text became one',
      ordinal: 4,
      text: whole.replace('two  spaces', 'two spaces'),
    },
    {
      what: 'the signature of a seal was changed',
      ordinal: 4,
      text: whole.replace(first.data.signature, `${'0'.repeat(8)}${first.data.signature.slice(8)}`),
    },
    {
      what: 'a key that signed nothing over handed over',
      ordinal: 5,
      text: whole.replace(key.first.sign(handover), key.witness.sign(handover)),
    },
    {
      what: 'a later event is not what the next seal covers',
      ordinal: 8,
      text: swapped(whole, '"ordinal":7', 'Micros\\":2', 'Micros\\":3'),
    },
  ]
  return {
    about:
      'Test vectors of docs/finance/seals.md and docs/finance/exports.md. Seeds are 32 bytes of Ed25519 (RFC 8032) in hex; all digests, keys and signatures are lower-case hex. "log" and "wrong" are exports of a log. The checksum in the last line of "wrong" is that of "log".',
    keys: Object.entries(seeds).map(([name, seed]) => ({
      name,
      seed,
      publicKey: key[name as keyof typeof key].publicKey,
    })),
    emptyDigest: startDigest().toString('hex'),
    digests,
    statements: [
      { text: first.statement, publicKey: key.first.publicKey, signature: first.data.signature },
      { text: handover, publicKey: key.first.publicKey, signature: key.first.sign(handover) },
      {
        text: countersigned.statement,
        publicKey: key.second.publicKey,
        signature: countersigned.data.signature,
      },
      { text: last.statement, publicKey: key.second.publicKey, signature: last.data.signature },
      {
        text: witnessStatement(unwitnessed, key.witness.publicKey, witnessedAt),
        publicKey: key.witness.publicKey,
        signature: file.witness.signature,
      },
    ],
    log: whole,
    wrong,
    files,
    recordsDigests,
    witness: {
      ...file,
      records: file.records.map(({ revision, event }) => ({ revision, ...event })),
    },
  }
}
