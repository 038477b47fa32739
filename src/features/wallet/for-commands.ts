import { InvalidArgumentError } from 'commander'
import { providers } from '../../domain/payments/payments.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { id, oneOf, option, required, wholeNumber } from '../../platform/cli/input.ts'
import { isReference, maxCents } from './input-forms.ts'

export { maxCents } from './input-forms.ts'

export const referenceText = (text: string): string => {
  if (isReference(text)) return text
  throw new InvalidArgumentError('It must be 1 to 200 printable characters without a space at its ends.')
}

const signedCents = (text: string): number => {
  const value = wholeNumber(-maxCents, maxCents)(text)
  if (value === 0) throw new InvalidArgumentError('It must not be 0.')
  return value
}

/** The options of movements by hand. */
export const account = required('<id>', 'the account', id<AccountId>)
export const reference = required(
  '<text>',
  'the same reference moves money once; stored in the log permanently: name no person',
  referenceText,
)
export const creditCents = required('<n>', 'whole cents above 0', wholeNumber(1, maxCents))
export const adjustmentCents = required('<n>', 'whole cents; below 0 to debit', signedCents)
/** Payments that were received elsewhere are booked to `assets:gateway:manual`. */
export const reversalGateway = option(
  '<name>',
  'the gateway of the chargeback or the deposit_refund; manual: the payment was received elsewhere',
  oneOf([...providers, 'manual']),
)
export const gatewayProblem = 'give --gateway with --reason chargeback or deposit_refund, and only then'
