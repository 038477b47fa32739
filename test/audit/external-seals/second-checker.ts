import { createHash, createPublicKey, verify } from 'node:crypto'

/*
 * A checker of seals, exports and files of a witness, written from docs/finance/seals.md and docs/finance/exports.md
 * alone: it imports nothing of src/. Each function throws where something is not as the pages say.
 */

const sha256 = (...parts: (string | Buffer)[]): Buffer => {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

const claim = (holds: boolean, what: string): void => {
  if (!holds) throw new Error(what)
}

const bytes8 = (value: number): Buffer => {
  const buffer = Buffer.alloc(8)
  buffer.writeBigUInt64BE(BigInt(value))
  return buffer
}

const prefixed = (text: string): Buffer => {
  const body = Buffer.from(text, 'utf8')
  const length = Buffer.alloc(4)
  length.writeUInt32BE(body.length)
  return Buffer.concat([length, body])
}

/** Whether an Ed25519 key in hex signed a text. */
export const signedBy = (publicKey: string, text: string, signature: string): boolean => {
  const key = createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(publicKey, 'hex').toString('base64url') },
    format: 'jwk',
  })
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'hex'))
}

const lines = (...values: readonly unknown[]): string => values.map((value) => `${value}\n`).join('')

export const emptyDigest = (): string => sha256('farebox log v1').toString('hex')

type Line = {
  ordinal: number
  stream: string
  revision: number
  id: string
  type: string
  data: string
  metadata: string
}

/**
 * The events of an export; the last line must have the digest of the bytes before it, unless only `sealed` is
 * requested.
 */
const linesOf = (text: string, sumToo: boolean): Line[] => {
  claim(text.endsWith('\n'), 'the last line has no end')
  const [head = '', ...rest] = text.slice(0, -1).split('\n')
  const end = JSON.parse(rest.pop() ?? '{}')
  claim(head === '{"format":"farebox-log","version":1}', 'no head')
  claim(end.events === rest.length, 'another number of events')
  const before = text.slice(0, text.slice(0, -1).lastIndexOf('\n') + 1)
  if (sumToo) claim(end.sha256 === sha256(before).toString('hex'), 'another checksum')
  return rest.map((line, at) => {
    const event = JSON.parse(line) as Line
    claim(event.ordinal === at + 1, 'ordinals have a gap')
    return event
  })
}

/** A line that is not as it was sealed. */
export class NotSealed extends Error {
  readonly ordinal: number
  constructor(ordinal: number, why: string) {
    super(why)
    this.ordinal = ordinal
  }
}

/** The digest after each event of an export, once every seal in it fits. @throws NotSealed */
export const checkLog = (text: string, pinnedKey: string, sumToo = true): string[] => {
  let digest: Buffer = Buffer.from(emptyDigest(), 'hex')
  let key = pinnedKey
  const digests: string[] = []
  const ids: string[] = []
  for (const { ordinal, stream, revision, id, type, data, metadata } of linesOf(text, sumToo)) {
    digest = sha256(
      digest,
      bytes8(ordinal),
      bytes8(revision),
      Buffer.from(id.replaceAll('-', ''), 'hex'),
      ...[stream, type, data, metadata].map(prefixed),
    )
    digests.push(digest.toString('hex'))
    ids.push(id)
    if (stream !== 'seal') continue
    const fail = (why: string): never => {
      throw new NotSealed(ordinal, why)
    }
    const said = JSON.parse(data)
    if (type === 'SealKeyRotated') {
      const { sealedOrdinal, sealedDigest, previousPublicKey, publicKey, rotatedAt, signature } = said
      const statement = lines(
        'farebox seal key rotation v1',
        sealedOrdinal,
        sealedDigest,
        previousPublicKey,
        publicKey,
        rotatedAt,
      )
      if (previousPublicKey !== key || !signedBy(key, statement, signature))
        fail('not handed over by the key')
      key = publicKey
      continue
    }
    const { throughOrdinal, throughEventId, sealedAt, publicKey, signature } = said
    if (publicKey !== key) fail('another key')
    if (digests[throughOrdinal - 1] !== said.digest || ids[throughOrdinal - 1] !== throughEventId)
      fail('another digest')
    const checked = 'checkedEvents' in said ? [Number(said.checkedEvents)] : []
    const statement = lines(
      `farebox log seal v${1 + checked.length}`,
      throughOrdinal,
      throughEventId,
      said.digest,
      sealedAt,
      publicKey,
      ...checked,
    )
    if (!signedBy(key, statement, signature)) fail('not signed')
  }
  return digests
}

type File = { name: string; text: string }

const fieldsOf = {
  LogSealed: ['throughOrdinal', 'throughEventId', 'digest', 'sealedAt', 'publicKey', 'signature'],
  SealKeyRotated: [
    'sealedOrdinal',
    'sealedDigest',
    'previousPublicKey',
    'publicKey',
    'rotatedAt',
    'signature',
  ],
} as const

/** Checks the files of a place; gives the digest after each. */
export const checkFiles = (files: readonly File[], firstEventId: string): string[] => {
  let digest = sha256('farebox witness v1')
  return files.map(({ name, text }, revision) => {
    claim(name === `${String(revision).padStart(12, '0')}.json`, `the name ${name}`)
    const said = JSON.parse(text)
    const fields = fieldsOf[said.type as keyof typeof fieldsOf]
    const data = Object.fromEntries(fields.map((field) => [field, said.data[field]]))
    const whole = { format: 'farebox-seal', version: 1, firstEventId, revision, type: said.type, data }
    claim(text === `${JSON.stringify(whole)}\n`, `the bytes of ${name}`)
    digest = sha256(digest, text)
    return digest.toString('hex')
  })
}

// biome-ignore lint/suspicious/noExplicitAny: parsed JSON as the page documents it
export const checkWitness = (file: any): void => {
  const { publicKey, witnessedAt, signature } = file.witness
  const seals = file.records.filter(({ type }: { type: string }) => type === 'LogSealed')
  const { throughOrdinal, throughEventId, digest, publicKey: sealKey } = seals.at(-1).data
  const statement = lines(
    'farebox witness v1',
    file.firstEventId,
    file.since,
    file.revision,
    file.recordsDigest,
    throughOrdinal,
    throughEventId,
    digest,
    sealKey,
    witnessedAt,
    publicKey,
  )
  claim(signedBy(publicKey, statement, signature), 'the witness did not sign it')
}
