import { createHmac, timingSafeEqual } from 'node:crypto'

/** Whether the text is the hex HMAC of the bytes: compared in constant time. */
export const isHexHmac = (
  algorithm: 'sha256' | 'sha512',
  secret: string,
  bytes: Buffer | string,
  hex: string,
): boolean => {
  const expected = createHmac(algorithm, secret).update(bytes).digest()
  if (!/^[0-9a-fA-F]+$/.test(hex) || hex.length !== expected.length * 2) return false
  return timingSafeEqual(expected, Buffer.from(hex, 'hex'))
}
