import type { Command } from 'commander'
import { type Cli, groupCommand, wholeNumber } from '../platform/cli/cli-context.ts'

/** `ledger verify`, `ledger events`, `ledger verifications` */
export const registerVerify = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  const verify = cli.action(async () => (await import('./verify-command.ts')).verify(cli.clock))
  const listChecks = cli.bareAction(async () => (await import('./verify-command.ts')).listChecks)
  ledger
    .command('verify')
    .description(
      'read the whole log and compare it with its seals, its invariants and every read table; exit code 1 on any difference',
    )
    .option(
      '--seals <file>',
      'also compare it with exported seals, from a file or a target (file:…, https:…, s3:…): detects a log that was cut off or rewritten',
    )
    .option('--witness <file>', 'also compare it with the seals that a witness pinned ("ledger witness")')
    .option('--witness-key <file>', 'the key that the witness must have signed with, PEM or hex')
    .option('--public-key <file>', 'the key that must have signed, PEM or hex; else the one of the settings')
    .option(
      '--max-unsealed <n>',
      'end with exit code 1 when more events than this are not sealed; 0: every event must be. Default: 0 while no server is running, else any number',
      wholeNumber(0),
    )
    .option('--list', 'print the checks, and what each of them proves; reads no database')
    .addHelpText(
      'after',
      `
It runs beside a live server and names the first differences: the event (ordinal and id), or table, key, column and both
values. It needs about as much disk in Postgres as the read tables while it runs.

Examples:
  npx farebox ledger verify
  npx farebox ledger verify --list
  npx farebox ledger verify --seals seals-2026-11-21.json --public-key seal-public.pem`,
    )
    .action((...inputs) => ((inputs[0] as { list?: true }).list ? listChecks : verify)(...inputs))
  ledger
    .command('events')
    .description('print what every kind of event is, field by field (docs/events.md); --json: for programs')
    .action(cli.bareAction(async () => (await import('./event-dictionary-page.ts')).printEvents))
  ledger
    .command('verifications')
    .description('list the verifications that were run, newest first; exit code 1 when their chain is broken')
    .option('--limit <n>', 'so many', wholeNumber(1, 10_000), 20)
    .action(cli.action(async () => (await import('./verify-command.ts')).verifications))
}
