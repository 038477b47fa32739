import { createHmac, timingSafeEqual } from 'node:crypto'

type Algorithm = 'sha256' | 'sha512'

const forms: Readonly<Record<Algorithm, RegExp>> = {
  sha256: /^[0-9a-fA-F]{64}$/,
  sha512: /^[0-9a-fA-F]{128}$/,
}

/** Whether the text has the form of a digest: asked before any work is done for a stranger. */
export const isHexDigest = (algorithm: Algorithm, hex: string): boolean => forms[algorithm].test(hex)

/** Whether the text is the hex HMAC of the bytes: compared in constant time. */
export const isHexHmac = (
  algorithm: Algorithm,
  secret: string,
  bytes: Buffer | string,
  hex: string,
): boolean => {
  if (!isHexDigest(algorithm, hex)) return false
  const expected = createHmac(algorithm, secret).update(bytes).digest()
  return timingSafeEqual(expected, Buffer.from(hex, 'hex'))
}
