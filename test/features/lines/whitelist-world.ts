import type pg from 'pg'
import {
  createWhitelist,
  type Whitelist,
  type WhitelistEntry,
} from '../../../src/features/lines/whitelist.ts'
import { createWhitelistRemovals } from '../../../src/features/lines/whitelist-commitments.ts'
import type { CommandRunner } from '../../../src/platform/commands/command.ts'

export type { WhitelistEntry }

/** The whitelists of a real database and log. */
export const whitelistOf = (world: { readonly pool: pg.Pool; readonly runner: CommandRunner }): Whitelist =>
  createWhitelist({ ...world, clock: Date.now, removals: createWhitelistRemovals(world) })
