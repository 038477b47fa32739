import { type Command, InvalidArgumentError } from 'commander'
import { isoTime } from '../../kernel/clock.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { type Cli, wholeNumber } from '../../platform/cli/cli.ts'
import { CliMisuse, type CliOutput, CliRefusal, dollars } from '../../platform/cli/output.ts'
import { microsToCentsFloor } from '../../terms/money.ts'
import { type AdjustmentReason, adjustmentReasons } from './adjustment-reason.ts'
import type { ManualAnswer, ManualRefusal } from './decide-manual.ts'
import { maxCents } from './most-cents.ts'
import { isReference } from './reference.ts'
import { createWallets } from './service.ts'

/** The largest figure of a wallet or a customer: micro-dollars are safe integers. */
const mostCents = microsToCentsFloor(Number.MAX_SAFE_INTEGER)
const reasons: readonly AdjustmentReason[] = adjustmentReasons

export const reference = (text: string): string => {
  if (isReference(text)) return text
  throw new InvalidArgumentError('It must be 1 to 200 printable characters without a space at its ends.')
}
export const gateway = (text: string): string => {
  if (/^[a-z0-9-]{1,32}$/.test(text)) return text
  throw new InvalidArgumentError('It must be 1 to 32 of a-z, 0-9 and "-", e.g. stripe.')
}
export const signedCents = (text: string): number => {
  const value = wholeNumber(-maxCents, maxCents)(text)
  if (value === 0) throw new InvalidArgumentError('It must not be 0.')
  return value
}

const oneReason = (text: string): AdjustmentReason => {
  const reason = reasons.find((known) => known === text)
  if (reason) return reason
  throw new InvalidArgumentError(`It must be one of ${reasons.join(', ')}.`)
}

/** Why nothing was moved by hand; `whose` has the money, e.g. `the wallet`. */
export const refusalOf = (refusal: ManualRefusal, whose = 'the wallet'): CliRefusal => {
  switch (refusal.code) {
    case 'unknown_account':
      return new CliMisuse('no account has this id; "accounts create" makes one', {}, 'not_found')
    case 'not_a_reseller':
      return new CliMisuse('this account is no reseller, it has no customers', {}, 'reseller_forbidden')
    case 'already_applied': {
      const amountCents = microsToCentsFloor(refusal.amountMicros)
      return new CliRefusal(
        'already_applied',
        `this reference moved ${dollars(amountCents)} before, nothing moved now; use another reference for another movement`,
        { amountCents },
      )
    }
    case 'insufficient_balance': {
      const { code, ...figures } = refusal
      const { balanceCents, amountCents } = figures
      return new CliRefusal(
        code,
        `${whose} has ${dollars(balanceCents)} and cannot give ${dollars(amountCents)}; take less, or credit it first`,
        figures,
      )
    }
    case 'invalid_amount':
      return new CliRefusal(
        refusal.code,
        `this would leave ${whose} with more than ${dollars(mostCents)} or owing more: that is the most that is counted`,
        { maxCents: mostCents },
      )
    case 'unconfirmed':
      return new CliRefusal(
        'unconfirmed',
        `this reference was recorded on ${isoTime(refusal.recordedAtMs)} and never confirmed; look for it in the wallet's transactions, and use another reference if it is not there`,
      )
    default:
      return refusal satisfies never
  }
}

const output = (accountId: AccountId, reference: string, answer: ManualAnswer): CliOutput => {
  if (answer.outcome === 'refused') throw refusalOf(answer.refusal)
  const amountCents = microsToCentsFloor(answer.amountMicros)
  const { balanceCents } = answer
  return {
    json: { accountId, reference, amountCents, balanceCents, currency: 'USD' },
    text: `moved ${dollars(amountCents)}; ${accountId} has ${dollars(balanceCents)}`,
  }
}

type Given = { readonly account: AccountId; readonly cents: number; readonly reference: string }

/** `wallet credit|adjust` */
export const registerWallet = (program: Command, cli: Cli): void => {
  const wallet = program.command('wallet').description('credit and adjust wallets by hand')
  wallet
    .command('credit')
    .description('credit a wallet; the same reference is credited once for ever')
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--cents <n>', 'whole cents above 0', wholeNumber(1, maxCents))
    .requiredOption(
      '--reference <text>',
      'what it is for: it stands in the log for ever, name no person',
      reference,
    )
    .action(
      cli.action(async (context, { account, cents, reference }: Given) => {
        const credit = { accountId: account, amountCents: cents, reference }
        return output(account, reference, await createWallets(context).credit(credit, context))
      }),
    )
  wallet
    .command('adjust')
    .description(
      'correct a wallet up or down; a chargeback also blocks the account, and what is missing is owed',
    )
    .requiredOption('--account <id>', 'the account')
    .requiredOption('--cents <n>', 'whole cents, below 0 to take', signedCents)
    .requiredOption(
      '--reference <text>',
      'what it is for: it stands in the log for ever, name no person',
      reference,
    )
    .option('--reason <reason>', reasons.join(', '), oneReason, 'correction')
    .option('--gateway <name>', 'the gateway that a chargeback takes the money from, e.g. stripe', gateway)
    .hook('preAction', (command) => {
      const { reason, gateway } = command.opts<{ reason: AdjustmentReason; gateway?: string }>()
      if ((reason === 'chargeback') !== (gateway !== undefined))
        command.error('error: give --gateway with --reason chargeback, and only then')
    })
    .action(
      cli.action(
        async (
          context,
          {
            account,
            cents,
            reference,
            reason,
            gateway,
          }: Given & { reason: AdjustmentReason; gateway?: string },
        ) => {
          const chargeback = reason === 'chargeback'
          if (chargeback !== (gateway !== undefined))
            throw new CliRefusal(
              'invalid_parameter',
              'give --gateway with --reason chargeback, and only then',
            )
          const adjustment = {
            accountId: account,
            amountCents: cents,
            reference,
            reason,
            gateway: gateway ?? null,
          }
          return output(account, reference, await createWallets(context).adjust(adjustment, context))
        },
      ),
    )
}
