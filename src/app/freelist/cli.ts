import type { Command } from 'commander'
import { registerFreelist } from '../../freelist/sources/cli.ts'
import type { Cli } from '../../platform/cli/cli.ts'
import type { Config } from '../config.ts'
import { isSandboxed } from './open-checking.ts'
import { readSources } from './read-sources.ts'

/** Commands on free proxies, with the settings of the service. */
export const registerFreelistCommands = (program: Command, cli: Cli<Config>): void =>
  registerFreelist(program, cli, {
    sources: ({ freelist }) => readSources(freelist.sources),
    rules: (config) => ({ sandbox: isSandboxed(config), own: new Set<string>() }),
    mostEndpoints: ({ freelist }) => freelist.endpoints,
  })
