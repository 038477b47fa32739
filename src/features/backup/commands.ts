import { bareCommand, command, type Register } from '../../platform/cli/command.ts'
import { argument, flag, required } from '../../platform/cli/input.ts'
import type { Migrations } from '../../platform/postgres/migrate.ts'

const runs = () => import('./run-commands.ts')

/** @param loadMigrations the migrations for a restored database */
export const backupCommands = (loadMigrations: () => Promise<Migrations>): readonly Register[] => [
  command({
    name: 'backup create',
    about: 'write the log, the vault and the work tables as of one instant; a server may run',
    input: {
      out: required(
        '<file>',
        'a new file, written completely or not at all; it holds personal data and key hashes',
      ),
      force: flag('replace an existing file'),
    },
    examples: ['bin/farebox backup create --out farebox-$(date +%F).backup'],
    run: async () => (await runs()).create,
  }),
  bareCommand({
    name: 'backup restore',
    about: 'restore a backup into a new, empty database: all of it or nothing',
    input: { file: argument('<file>', 'a file of "backup create"') },
    examples: [
      'DATABASE_URL=postgres://user:password@host:5432/new bin/farebox backup restore farebox-2026-11-21.backup',
      'FAREBOX_DATA=/srv/new bin/farebox backup restore farebox-2026-11-21.backup  # with master.key and seal.key in it',
    ],
    run: async () => (await runs()).restore(await loadMigrations()),
  }),
]
