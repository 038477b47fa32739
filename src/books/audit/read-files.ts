import { readFile } from 'node:fs/promises'
import { CliMisuse } from '../../platform/cli/output.ts'
import type { LogSealed } from './events.ts'
import { parsePublicKey } from './seal-key.ts'
import { parseSealsFile, type SealsFile, SealsFileRefused, trustedSeals } from './seals-file.ts'

/** Far above any file of keys or seals. */
const maxBytes = 256 * 1024 * 1024

const readText = async (path: string): Promise<string> => {
  try {
    const bytes = await readFile(path)
    if (bytes.length > maxBytes) throw new Error('it is too large')
    return bytes.toString('utf8')
  } catch (error) {
    throw new CliMisuse(`${path} cannot be read: ${(error as Error).message}`)
  }
}

/** @throws CliMisuse */
export const readPublicKey = async (path: string): Promise<string> => {
  const key = parsePublicKey(await readText(path))
  if (key === null)
    throw new CliMisuse(
      `${path} holds no Ed25519 public key; PEM ("-----BEGIN PUBLIC KEY-----") or 64 hex digits are taken, as "ledger seals public-key" prints`,
    )
  return key
}

/** 32 bytes in base64. @throws CliMisuse */
export const readSealKey = async (path: string): Promise<Buffer> => {
  const text = (await readText(path)).trim()
  if (!/^[A-Za-z0-9+/]{43}=$/.test(text))
    throw new CliMisuse(
      `${path} does not hold 32 bytes in base64; "openssl rand -base64 32" prints such a key`,
    )
  return Buffer.from(text, 'base64')
}

/** The seals of a file that the key stands behind. @throws CliMisuse */
export const readSeals = async (
  path: string,
  publicKey: string,
): Promise<{ readonly file: SealsFile; readonly seals: readonly LogSealed['data'][] }> => {
  const text = await readText(path)
  try {
    const file = parseSealsFile(text)
    return { file, seals: trustedSeals(file, publicKey) }
  } catch (error) {
    if (error instanceof SealsFileRefused) throw new CliMisuse(`${path}: ${error.message}`)
    throw error
  }
}
