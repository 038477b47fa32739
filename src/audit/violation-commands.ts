import { type Command, InvalidArgumentError } from 'commander'
import type { Cli, CliContext } from '../platform/cli/cli-context.ts'
import { ledgerCommand } from '../platform/cli/options.ts'
import { CliMisuse, CliRefusal, table } from '../platform/cli/output.ts'
import { createProgressBar } from '../platform/cli/progress-bar.ts'
import { catchUp } from '../platform/projections/bring-up.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { sealKeyOf } from './seals/seal-key.ts'
import { checkSignatures } from './signatures/signature-watch.ts'
import { acknowledgeViolation, listViolations, type Violation } from './violations.ts'

const maxListed = 1_000

/** Every breach of the whole log as it stands now. */
const currentViolations = async (context: CliContext, open: boolean): Promise<readonly Violation[]> => {
  const bar = createProgressBar(process.stderr)
  try {
    const { codec } = context
    await catchUp({ ...context, decode: codec.decode }, { group: invariantGroup, displayName: 'laws' }, bar)
  } finally {
    bar.end()
  }
  if (context.config.eventStoreUrl === null)
    await checkSignatures({ ...context, publicKey: sealKeyOf(context.keys.seal).publicKey })
  return listViolations(context.pool, { open, limit: maxListed })
}

/**
 * Holds the whole log against the laws.
 * @throws CliRefusal `law_broken` when an event breaks one and nobody decided about it
 */
export const refuseUnresolvedViolations = async (context: CliContext): Promise<void> => {
  const violations = await currentViolations(context, true)
  if (violations.length > 0)
    throw new CliRefusal(
      'law_broken',
      `the log is not sealed: "ledger decide" says why an event stands that breaks a law\n${violationTable(violations)}`,
      { breaches: violations },
    )
}

const violationTable = (violations: readonly Violation[]): string =>
  table(
    violations,
    [
      { title: 'event', value: ({ eventId }) => eventId },
      { title: 'type', value: ({ eventType }) => eventType },
      { title: 'account', value: ({ accountId }) => accountId ?? '-' },
      { title: 'law', value: ({ rule }) => rule },
      { title: 'problem', value: ({ problem }) => problem },
      { title: 'decided', value: ({ decision }) => decision?.reason ?? '-' },
    ],
    'no event breaks a law',
  )

const reasonOption = (text: string): string => {
  const reason = text.trim()
  if (!/^[^\p{C}]{1,500}$/u.test(reason))
    throw new InvalidArgumentError('It must be 1 to 500 characters on one line.')
  return reason
}

const registerList = (ledger: Command, cli: Cli): void => {
  ledger
    .command('breaches')
    .description('list the events that break a law; exit code 1 when nobody decided about one of them')
    .option('--open', 'only those that nobody decided about')
    .addHelpText(
      'after',
      '\nA running server stops the account of such an event and does not seal the log until "ledger decide" says why it stands.',
    )
    .action(
      cli.action(async (context, { open = false }: { open?: boolean }) => {
        const violations = await currentViolations(context, open)
        const text = violationTable(violations)
        if (violations.some(({ decision }) => decision === null))
          throw new CliRefusal('law_broken', `an event breaks a law\n${text}`, { breaches: violations })
        return { json: { breaches: violations }, text }
      }),
    )
}

const registerDecide = (ledger: Command, cli: Cli): void => {
  ledger
    .command('decide')
    .description('record why an event stands that breaks a law; then the log is sealed again')
    .argument('<eventId>', 'the event, as "ledger breaches" lists it')
    .requiredOption(
      '--reason <text>',
      'why it stands: it stays in the log for ever, name no person',
      reasonOption,
    )
    .addHelpText(
      'after',
      '\nThe account of the event stays blocked until "accounts unblock", and "ledger verify" goes on finding the event.',
    )
    .action(
      cli.action(async (context, eventId: string, { reason }: { reason: string }) => {
        const violations = await currentViolations(context, false)
        const found = violations.filter((violation) => violation.eventId === eventId)
        if (found.length === 0)
          throw new CliMisuse(
            `no event ${eventId} breaks a law; "ledger breaches" lists those that do`,
            {},
            'not_found',
          )
        for (const violation of found) await acknowledgeViolation(context.runner, violation, reason, context)
        const rules = found.map(({ rule }) => rule)
        return {
          json: { eventId, rules, reason },
          text: `it is on record why ${eventId} stands against ${rules.join(', ')}`,
        }
      }),
    )
}

/** `ledger breaches`, `ledger decide` */
export const registerViolations = (program: Command, cli: Cli): void => {
  const ledger = ledgerCommand(program)
  registerList(ledger, cli)
  registerDecide(ledger, cli)
}
