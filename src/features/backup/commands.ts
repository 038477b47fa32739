import type { Command } from 'commander'
import type { Cli } from '../../platform/cli/cli-context.ts'
import { withExamples } from '../../platform/cli/options.ts'
import type { Migrations } from '../../platform/postgres/migrate.ts'

/** Loaded when a command runs. */
const runs = () => import('./run-commands.ts')

/**
 * `backup create|restore`
 * @param loadMigrations the migrations for a restored database
 */
export const backupCommands =
  (loadMigrations: () => Promise<Migrations>) =>
  (program: Command, cli: Cli): void => {
    const backup = program.command('backup')
    const creating = backup
      .command('create')
      .description('write the log, the vault and the work tables as of one instant, beside a running server')
      .requiredOption(
        '--out <file>',
        'a file that is not there yet, written whole or not at all; it holds personal data and key hashes',
      )
      .option('--force', 'replace a file that is there')
      .action(cli.action(async () => (await runs()).create))
    withExamples(creating, ['npx farebox backup create --out farebox-$(date +%F).backup'])
    const restoreCommand = backup
      .command('restore')
      .description('put a backup into a new, empty database: all of it or nothing')
      .argument('<file>', 'what "backup create" wrote')
      .action(cli.bareAction(async () => (await runs()).restore(await loadMigrations())))
    withExamples(restoreCommand, [
      'DATABASE_URL=postgres://user:password@host:5432/new npx farebox backup restore farebox-2026-11-21.backup',
      'FAREBOX_DATA=/srv/new npx farebox backup restore farebox-2026-11-21.backup  # with master.key and seal.key in it',
    ])
  }
