import { InvalidArgumentError } from 'commander'
import { z } from 'zod'
import { type Clock, isTime } from '../../kernel/clock.ts'
import { CliMisuse } from './output.ts'

const dayMs = 86_400_000

/** Parses the name of a key or token. It stays in the log for good. */
export const nameOption = (text: string): string => {
  if (!/^[^\p{C}]{1,100}$/u.test(text))
    throw new InvalidArgumentError('It must be 1 to 100 printable characters.')
  return text
}

const instant = z.iso.datetime({ offset: true })

/** Parses an instant into milliseconds since the epoch. */
export const instantOption = (text: string): number => {
  if (!instant.safeParse(text).success || !isTime(Date.parse(text)))
    throw new InvalidArgumentError('It must be an instant such as 2027-01-01T00:00:00Z.')
  return Date.parse(text)
}

/**
 * When something ends that was asked for with `--expires-at` or `--expires-in-days`, milliseconds; null for neither.
 * @throws CliMisuse for both
 */
export const expiryOf = (
  { clock }: { readonly clock: Clock },
  { expiresAt, expiresInDays }: { readonly expiresAt?: number; readonly expiresInDays?: number },
): number | null => {
  if (expiresAt !== undefined && expiresInDays !== undefined)
    throw new CliMisuse('give --expires-at or --expires-in-days, not both')
  return expiresAt ?? (expiresInDays === undefined ? null : clock() + expiresInDays * dayMs)
}
