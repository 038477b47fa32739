import { InvalidArgumentError } from 'commander'
import { wholeNumber } from '../../platform/cli/cli-context.ts'
import { isReference, maxCents } from './input-forms.ts'

export { maxCents } from './input-forms.ts'

export const parseReference = (text: string): string => {
  if (isReference(text)) return text
  throw new InvalidArgumentError('It must be 1 to 200 printable characters without a space at its ends.')
}

export const parseGatewayName = (text: string): string => {
  if (/^[a-z0-9-]{1,32}$/.test(text)) return text
  throw new InvalidArgumentError('It must be 1 to 32 of a-z, 0-9 and "-", e.g. stripe.')
}

export const parseSignedCents = (text: string): number => {
  const value = wholeNumber(-maxCents, maxCents)(text)
  if (value === 0) throw new InvalidArgumentError('It must not be 0.')
  return value
}
