import type { Command } from 'commander'
import { type Cli, groupCommand, wholeNumber } from '../../platform/cli/cli-context.ts'

/** Loads the implementation of the commands when one runs. */
const loadCommands = () => import('./run-seal-commands.ts')

const registerSeal = (ledger: Command, cli: Cli): void => {
  ledger
    .command('seal')
    .description('seal what is new in the log now; a running server does so by itself')
    .option(
      '--remake-digests',
      'first compute the digests of all events anew, e.g. after a log was restored to an earlier point',
    )
    .option('--without-laws', 'do not hold the new events against the laws of "ledger verify" first')
    .action(cli.action(async () => (await loadCommands()).seal))
}

const registerList = (seals: Command, cli: Cli): void => {
  seals
    .command('list')
    .description('list the last seals, newest first, without verifying them')
    .option('--limit <n>', 'so many', wholeNumber(1, 10_000), 20)
    .action(cli.action(async () => (await loadCommands()).listSealsPage))
}

const registerExport = (seals: Command, cli: Cli): void => {
  seals
    .command('export')
    .description('write the last seals and all changes of the key to a small file, to keep elsewhere')
    .requiredOption('--file <path>', 'a file that is not there yet')
    .option('--last <n>', 'so many seals', wholeNumber(1, 1_000_000), 100)
    .addHelpText('after', '\nExample:\n  npx farebox ledger seals export --file seals-2026-11-21.json')
    .action(cli.action(async () => (await loadCommands()).exportSeals))
}

const registerKeyCommands = (seals: Command, cli: Cli): void => {
  seals
    .command('public-key')
    .description('print the public key that seals are checked with: keep it elsewhere than the database')
    .action(cli.action(async () => (await loadCommands()).publicKey))
  seals
    .command('rotate-key')
    .description('hand over to another key, which the present one signs; then restart the server with it')
    .requiredOption('--new-key-file <path>', 'holds 32 bytes in base64')
    .addHelpText(
      'after',
      '\nExample:\n  openssl rand -base64 32 > new-seal.key\n  npx farebox ledger seals rotate-key --new-key-file new-seal.key',
    )
    .action(cli.action(async () => (await loadCommands()).rotateKey))
}

/** `ledger seal`, `ledger seals list|export|public-key|rotate-key` */
export const registerSeals = (program: Command, cli: Cli): void => {
  const ledger = groupCommand(program, 'ledger')
  registerSeal(ledger, cli)
  const seals = ledger.command('seals').description('the signed digests of the log (docs/seals.md)')
  registerList(seals, cli)
  registerExport(seals, cli)
  registerKeyCommands(seals, cli)
}
