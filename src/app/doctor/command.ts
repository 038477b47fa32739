import type { Command } from 'commander'
import type { Cli } from '../../platform/cli/cli-context.ts'
import type { Config } from '../config.ts'

/** `doctor` */
export const registerDoctor = (program: Command, cli: Cli<Config>): void => {
  // What it checks with is loaded when it runs: its help needs none of it.
  program.command('doctor').action(cli.openingAction(async () => (await import('./doctor.ts')).examine))
}
