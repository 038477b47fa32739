import { type KeyObject, sign } from 'node:crypto'
import { isIP } from 'node:net'

/** DER: a tag, the length, the content (X.690). */
const der = (tag: number, ...parts: readonly Buffer[]): Buffer => {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), content])
}
const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts)
const set = (...parts: Buffer[]): Buffer => der(0x31, ...parts)
const hex = (digits: string): Buffer => Buffer.from(digits, 'hex')

const ecdsaWithSha256 = sequence(der(0x06, hex('2a8648ce3d040302')))
const ed25519 = sequence(der(0x06, hex('2b6570')))
const commonName = hex('550403')
const subjectAltName = hex('551d11')

const utcTime = (ms: number): Buffer =>
  der(
    0x17,
    Buffer.from(
      new Date(ms).toISOString().replace(/\d\d(\d\d)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d).*/, '$1$2$3$4$5$6Z'),
    ),
  )

const groupsOf = (part: string): readonly string[] => part.split(':').filter((group) => group !== '')

const addressBytes = (ip: string): Buffer => {
  if (isIP(ip) === 4) return Buffer.from(ip.split('.').map(Number))
  const [head = '', tail] = ip.split('::')
  const [before, after] = [groupsOf(head), groupsOf(tail ?? '')]
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  return hex(
    [...before, ...(tail === undefined ? [] : zeros), ...after]
      .map((group) => group.padStart(4, '0'))
      .join(''),
  )
}

const nameOf = (name: string): Buffer =>
  isIP(name) === 0 ? der(0x82, Buffer.from(name)) : der(0x87, addressBytes(name))

const dayMs = 86_400_000

/**
 * A self-signed certificate as PEM. Node cannot create one.
 * @param keys an EC key of P-256 or an Ed25519 key
 * @param names host names and addresses; the first one is also the common name
 */
export const selfSignedCertificate = (
  keys: { readonly privateKey: KeyObject; readonly publicKey: KeyObject },
  names: readonly string[],
  { nowMs, days }: { readonly nowMs: number; readonly days: number },
): string => {
  const { privateKey, publicKey } = keys
  const isEd25519 = privateKey.asymmetricKeyType === 'ed25519'
  const algorithm = isEd25519 ? ed25519 : ecdsaWithSha256
  const name = sequence(set(sequence(der(0x06, commonName), der(0x0c, Buffer.from(names[0] ?? '')))))
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))), // version 3
    der(0x02, Buffer.of(1)),
    algorithm,
    name,
    sequence(utcTime(nowMs - dayMs), utcTime(nowMs + days * dayMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(der(0x06, subjectAltName), der(0x04, sequence(...names.map(nameOf)))))),
  )
  const signature = sign(isEd25519 ? null : 'sha256', body, privateKey)
  const certificate = sequence(body, algorithm, der(0x03, Buffer.of(0), signature))
  const lines = certificate.toString('base64').replace(/.{64}/g, '$&\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
}
