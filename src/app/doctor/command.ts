import type { Command } from 'commander'
import type { Cli } from '../../platform/cli/cli-context.ts'
import type { Config } from '../config.ts'

/** `doctor` */
export const registerDoctor = (program: Command, cli: Cli<Config>): void => {
  // The checks are loaded when the command runs, because its help does not need them.
  program.command('doctor').action(cli.openingAction(async () => (await import('./doctor.ts')).examine))
}
